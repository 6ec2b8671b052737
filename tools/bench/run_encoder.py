#!/usr/bin/env python3
"""Measures the encoder classifier's training step, ours and PyTorch's in turn, in f32 and bf16.

    python3 tools/bench/run_encoder.py --json encoder.json
    python3 tools/bench/run_encoder.py --dtypes f32 --dropout 0.2

Width 256, 8 heads, 6 layers, hidden 1024, 32 texts of 512 tokens: forward, backward and AdamW. Each round is one process
of some seconds of each side, with threads bound to processors, and the machine's own rates before and after it (turns.py);
rates are the median step's after the first ones, peak RSS is that of the whole process. The ratio is that of each round:
median and quartiles. Run it on an idle machine.
"""

import argparse
import json
import pathlib
import statistics

import run_pair
import turns as turn_taking

HERE = pathlib.Path(__file__).resolve().parent


def measure(dtype, options):
    common = ["--dtype", dtype, "--threads", str(options.threads), "--dropout", str(options.dropout)]
    common += ["--steps", str(options.steps), "--skip", str(options.skip)]
    common += ["--batch-size", str(options.batch_size), "--length", str(options.length)]
    sides = {
        "ours": ([str(pathlib.Path(options.bench) / "bench_encoder"), *common], turn_taking.OURS),
        "PyTorch": ([options.python, str(HERE / "peer_encoder.py"), *common], turn_taking.PEER),
    }
    products = "fp32" if dtype == "f32" else dtype
    turns = run_pair.measure_runs(dtype, sides, options, products, options.rounds, "tokens_per_second")
    rates = {name: [turn[name]["tokens_per_second"] for turn in turns] for name in sides}
    memory = {name: max(turn[name]["peak_rss_bytes"] for turn in turns) for name in sides}
    return {
        "dtype": dtype,
        "dropout": options.dropout,
        "tokens_per_second": statistics.median(rates["ours"]),
        "pytorch_tokens_per_second": statistics.median(rates["PyTorch"]),
        **turn_taking.ratios(
            turns, lambda turn: turn["ours"]["tokens_per_second"] / turn["PyTorch"]["tokens_per_second"]
        ),
        "memory_ratio": memory["ours"] / memory["PyTorch"],
        "turns": turns,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    run_pair.add_tools(parser)
    parser.add_argument("--dtypes", nargs="+", default=["f32", "bf16"], choices=["f32", "bf16"])
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--steps", type=int, default=3, help="of each run (default: %(default)s)")
    parser.add_argument("--skip", type=int, default=1, help="first steps that are not measured (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="(default: %(default)s)")
    parser.add_argument("--json", type=pathlib.Path, help="where to write the figures")
    options = parser.parse_args()
    result = {"machine": run_pair.machine(options), "rows": [measure(dtype, options) for dtype in options.dtypes]}
    for row in result["rows"]:
        print(
            f"{row['dtype']}: {row['tokens_per_second']:.0f} tokens/s, {turn_taking.with_quartiles(row['ratio'])} times "
            f"PyTorch's, moved {turn_taking.moved_text(row)}, memory {row['memory_ratio']:.2f} of PyTorch's"
        )
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
