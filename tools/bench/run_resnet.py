#!/usr/bin/env python3
"""Measures ResNet-18's training step on images of 32 x 32, ours and PyTorch's in turn, in f32 and bf16.

    python3 tools/bench/run_resnet.py --json resnet.json
    python3 tools/bench/run_resnet.py --dtypes f32 --memory-formats channels_last

64 images: forward, backward and SGD with momentum. Both sides start from the same weights and train on the same images,
so their losses are compared step by step. Each round is one process of some seconds of ours, and one of PyTorch for each
memory format, with threads bound to processors, and the machine's own rates before and after it (turns.py); rates are the
median step's after the first ones, peak RSS is that of the whole process. The ratios, median and quartiles of the rounds,
are against PyTorch's faster format and against its smaller peak. Run it on an idle machine.
"""

import argparse
import json
import pathlib
import statistics
import tempfile

import run_pair
import turns as turn_taking

HERE = pathlib.Path(__file__).resolve().parent


def measure(dtype, options, start):
    common = ["--dtype", dtype, "--threads", str(options.threads), "--batch-size", str(options.batch_size)]
    common += ["--steps", str(options.steps), "--skip", str(options.skip), "--size", str(options.size)]
    sides = {"ours": ([str(pathlib.Path(options.bench) / "bench_resnet"), *common], turn_taking.OURS)}
    for name in options.memory_formats:
        command = [options.python, str(HERE / "peer_resnet.py"), *common, "--memory-format", name, "--start", start]
        sides[f"PyTorch {name}"] = (command, turn_taking.PEER)
    products = "fp32" if dtype == "f32" else dtype
    turns = run_pair.measure_runs(dtype, sides, options, products, options.rounds, "images_per_second")

    def rate(turn, name):
        return turn[name]["images_per_second"]

    def ratio_of(turn):
        return rate(turn, "ours") / max(rate(turn, name) for name in sides if name != "ours")

    memory = {name: max(turn[name]["peak_rss_bytes"] for turn in turns) for name in sides}
    rates = {name: statistics.median(rate(turn, name) for turn in turns) for name in sides}
    return {
        "dtype": dtype,
        "images_per_second": rates["ours"],
        "pytorch_images_per_second": {name: rates[f"PyTorch {name}"] for name in options.memory_formats},
        **turn_taking.ratios(turns, ratio_of),
        "peak_rss_bytes": memory["ours"],
        "memory_ratio": memory["ours"] / min(memory[name] for name in sides if name != "ours"),
        "losses": turns[-1]["ours"]["losses"],
        "pytorch_losses": turns[-1][f"PyTorch {options.memory_formats[0]}"]["losses"],
        "turns": turns,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    run_pair.add_tools(parser)
    parser.add_argument("--dtypes", nargs="+", default=["f32", "bf16"], choices=["f32", "bf16"])
    parser.add_argument(
        "--memory-formats",
        nargs="+",
        default=["channels_last", "contiguous"],
        choices=["channels_last", "contiguous"],
        help="of PyTorch; ours is channels-last",
    )
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=32, help="rows and columns of an image")
    parser.add_argument("--steps", type=int, default=5, help="of each run (default: %(default)s)")
    parser.add_argument("--skip", type=int, default=2, help="first steps that are not measured (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="(default: %(default)s)")
    parser.add_argument("--json", type=pathlib.Path, help="where to write the figures")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        start = str(pathlib.Path(folder) / "start.safetensors")
        size = ["--batch-size", str(options.batch_size), "--size", str(options.size)]
        bench = str(pathlib.Path(options.bench) / "bench_resnet")
        run_pair.run_measured([bench, "--steps", "1", "--skip", "0", "--save-start", start, *size])
        rows = [measure(dtype, options, start) for dtype in options.dtypes]
    result = {"machine": run_pair.machine(options), "rows": rows}
    for row in result["rows"]:
        peers = ", ".join(f"{name} {rate:.1f}" for name, rate in row["pytorch_images_per_second"].items())
        print(
            f"{row['dtype']}: {row['images_per_second']:.1f} images/s, PyTorch {peers}: "
            f"{turn_taking.with_quartiles(row['ratio'])} times the faster, moved {turn_taking.moved_text(row)}, "
            f"memory {row['memory_ratio']:.2f}"
        )
        for name in ("losses", "pytorch_losses"):
            print(f"  {name:14}", " ".join(f"{loss:.5f}" for loss in row[name]))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
