#!/usr/bin/env python3
"""Measures the encoder classifier's training step, ours and PyTorch's in turn (A B A B), in f32 and bf16.

    python3 tools/bench/run_encoder.py --rounds 3 --json encoder.json
    python3 tools/bench/run_encoder.py --dtypes f32 --dropout 0.2

Width 256, 8 heads, 6 layers, hidden 1024, 32 texts of 512 tokens: forward, backward and AdamW. Each round is one process
of each side; rates are the median step's after the first ones, peak RSS is that of the whole process. Run it on an idle
machine.
"""

import argparse
import json
import pathlib
import statistics
import sys

import run_pair

HERE = pathlib.Path(__file__).resolve().parent


def measure(dtype, options):
    common = ["--dtype", dtype, "--threads", str(options.threads), "--dropout", str(options.dropout)]
    common += ["--steps", str(options.steps), "--skip", str(options.skip)]
    common += ["--batch-size", str(options.batch_size), "--length", str(options.length)]
    ours, peer = [], []
    for turn in range(options.rounds):
        ours.append(run_pair.run_measured([str(pathlib.Path(options.bench) / "bench_encoder"), *common]))
        peer.append(run_pair.run_measured([options.python, str(HERE / "peer_encoder.py"), *common]))
        print(
            f"{dtype}, round {turn + 1}: ours {ours[-1]['tokens_per_second']:.0f} tokens/s "
            f"({ours[-1]['peak_rss_bytes'] / 2**30:.2f} GiB), PyTorch {peer[-1]['tokens_per_second']:.0f} "
            f"({peer[-1]['peak_rss_bytes'] / 2**30:.2f} GiB)",
            file=sys.stderr,
        )
    ratios = [o["tokens_per_second"] / p["tokens_per_second"] for o, p in zip(ours, peer)]
    return {
        "dtype": dtype,
        "dropout": options.dropout,
        "tokens_per_second": statistics.median(o["tokens_per_second"] for o in ours),
        "pytorch_tokens_per_second": statistics.median(p["tokens_per_second"] for p in peer),
        "ratio": run_pair.spread(ratios),
        "memory_ratio": max(o["peak_rss_bytes"] for o in ours) / max(p["peak_rss_bytes"] for p in peer),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    run_pair.add_tools(parser)
    parser.add_argument("--dtypes", nargs="+", default=["f32", "bf16"], choices=["f32", "bf16"])
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--skip", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path, help="where to write the figures")
    options = parser.parse_args()
    result = {"machine": run_pair.machine(options), "rows": [measure(dtype, options) for dtype in options.dtypes]}
    for row in result["rows"]:
        print(
            f"{row['dtype']}: {row['tokens_per_second']:.0f} tokens/s, {row['ratio']['median']:.2f} times PyTorch's "
            f"({row['ratio']['lowest']:.2f} to {row['ratio']['highest']:.2f}), memory {row['memory_ratio']:.2f} of PyTorch's"
        )
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
