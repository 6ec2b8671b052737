#!/usr/bin/env python3
"""Measures the LSTM language model, ours and PyTorch's, in turn (A B A B), and prints both and their ratio.

    run_lstm.py --dtype bf16 --vocabulary 10000 --rounds 3

Each round is one process of each side: 2 layers 512 wide, 32 sequences of 64 tokens, forward, backward and AdamW; the
ratio is given per round, and its median with the lowest and the highest. Peak RSS is the kernel's figure for the whole
process. Run it on an idle machine.
"""

import argparse
import json
import pathlib
import statistics
import sys

from run_pair import machine, run_measured, spread

HERE = pathlib.Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build/release/bin/bench", help="the folder of bench_lstm (%(default)s)")
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch (default: this one)")
    parser.add_argument("--threads", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32", help="(default: %(default)s)")
    parser.add_argument("--vocabulary", type=int, default=10000, help="(default: %(default)s)")
    parser.add_argument("--steps", type=int, default=8, help="of each run (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--json", help="write the result to this file too")
    options = parser.parse_args()

    common = [f"--{name}={getattr(options, name)}" for name in ("dtype", "vocabulary", "steps", "threads")]
    result = machine(options) | {"ours": [], "pytorch": []}
    for turn in range(options.rounds):
        result["ours"].append(run_measured([str(pathlib.Path(options.bench) / "bench_lstm"), *common]))
        result["pytorch"].append(run_measured([options.python, str(HERE / "peer_lstm.py"), *common]))
        ours, peer = (result[side][-1]["tokens_per_second"] for side in ("ours", "pytorch"))
        print(f"round {turn + 1}: {ours:,.0f} and {peer:,.0f} tokens/s, ratio {ours / peer:.2f}", file=sys.stderr)
    sides = {side: result[side] for side in ("ours", "pytorch")}
    for side, rounds in sides.items():
        rate = statistics.median(r["tokens_per_second"] for r in rounds)
        memory = max(r["peak_rss_bytes"] for r in rounds)
        print(f"{side:>8}: {rate:8,.0f} tokens/s  {memory / 2**30:5.2f} GiB  loss {rounds[-1]['loss']:.4f}")
    result["ratio"] = spread(
        [o["tokens_per_second"] / p["tokens_per_second"] for o, p in zip(result["ours"], result["pytorch"])]
    )
    result["memory_ratio"] = max(r["peak_rss_bytes"] for r in result["ours"]) / max(
        r["peak_rss_bytes"] for r in result["pytorch"]
    )
    r = result["ratio"]
    print(f"   ratio: {r['median']:.2f} ({r['lowest']:.2f} to {r['highest']:.2f}); memory {result['memory_ratio']:.2f}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
