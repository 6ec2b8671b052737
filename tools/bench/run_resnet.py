#!/usr/bin/env python3
"""Measures ResNet-18's training step on images of 32 x 32, ours and PyTorch's in turn (A B A B), in f32 and bf16.

    python3 tools/bench/run_resnet.py --rounds 3 --json resnet.json
    python3 tools/bench/run_resnet.py --dtypes f32 --memory-formats channels_last

64 images: forward, backward and SGD with momentum. Both sides start from the same weights and train on the same images,
so their losses are compared step by step. Each round is one process of ours, and one of PyTorch for each memory format;
rates are the median step's after the first ones, peak RSS is that of the whole process. The ratios are against PyTorch's
faster format and against its smaller peak. Run it on an idle machine.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile

import run_pair

HERE = pathlib.Path(__file__).resolve().parent


def measure(dtype, options, start):
    common = ["--dtype", dtype, "--threads", str(options.threads), "--batch-size", str(options.batch_size)]
    common += ["--steps", str(options.steps), "--skip", str(options.skip), "--size", str(options.size)]
    ours, peers = [], {name: [] for name in options.memory_formats}
    bench = str(pathlib.Path(options.bench) / "bench_resnet")
    for turn in range(options.rounds):
        ours.append(run_pair.run_measured([bench, *common]))
        for name, runs in peers.items():
            peer = [options.python, str(HERE / "peer_resnet.py"), *common, "--memory-format", name, "--start", start]
            runs.append(run_pair.run_measured(peer))
        rates = ", ".join(
            f"PyTorch {name} {runs[-1]['images_per_second']:.1f} ({runs[-1]['peak_rss_bytes'] / 2**30:.2f} GiB)"
            for name, runs in peers.items()
        )
        print(
            f"{dtype}, round {turn + 1}: ours {ours[-1]['images_per_second']:.1f} images/s "
            f"({ours[-1]['peak_rss_bytes'] / 2**30:.2f} GiB), {rates}",
            file=sys.stderr,
        )
    best = [max(runs[turn]["images_per_second"] for runs in peers.values()) for turn in range(options.rounds)]
    ratios = [o["images_per_second"] / p for o, p in zip(ours, best)]
    peer = next(iter(peers.values()))[-1]
    return {
        "dtype": dtype,
        "images_per_second": statistics.median(o["images_per_second"] for o in ours),
        "pytorch_images_per_second": {
            name: statistics.median(run["images_per_second"] for run in runs) for name, runs in peers.items()
        },
        "ratio": run_pair.spread(ratios),
        "peak_rss_bytes": max(o["peak_rss_bytes"] for o in ours),
        "memory_ratio": max(o["peak_rss_bytes"] for o in ours)
        / min(max(run["peak_rss_bytes"] for run in runs) for runs in peers.values()),
        "losses": ours[-1]["losses"],
        "pytorch_losses": peer["losses"],
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
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--skip", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
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
            f"{row['dtype']}: {row['images_per_second']:.1f} images/s, PyTorch {peers}: {row['ratio']['median']:.2f} times the "
            f"faster ({row['ratio']['lowest']:.2f} to {row['ratio']['highest']:.2f}), memory {row['memory_ratio']:.2f}"
        )
        for name in ("losses", "pytorch_losses"):
            print(f"  {name:14}", " ".join(f"{loss:.5f}" for loss in row[name]))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
