#!/usr/bin/env python3
"""Measures the LSTM language model, ours and PyTorch's, in turn, and prints both and their ratio.

    run_lstm.py --dtype bf16 --vocabulary 10000

Each round is one process of some seconds of each side, with threads bound to processors, and the machine's own rates before
and after it (turns.py): 2 layers 512 wide, 32 sequences of 64 tokens, forward, backward and AdamW. The ratio is that of
each round: median and quartiles. Peak RSS is the kernel's figure for the whole process. Run it on an idle machine.
"""

import argparse
import json
import pathlib
import statistics

import run_pair
import turns as turn_taking

HERE = pathlib.Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    run_pair.add_tools(parser)
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32", help="(default: %(default)s)")
    parser.add_argument("--vocabulary", type=int, default=10000, help="(default: %(default)s)")
    parser.add_argument("--steps", type=int, default=8, help="of each run (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="(default: %(default)s)")
    parser.add_argument("--json", help="write the result to this file too")
    options = parser.parse_args()

    common = [f"--{name}={getattr(options, name)}" for name in ("dtype", "vocabulary", "steps", "threads")]
    result = run_pair.machine(options)
    sides = {
        "ours": ([str(pathlib.Path(options.bench) / "bench_lstm"), *common], turn_taking.OURS),
        "pytorch": ([options.python, str(HERE / "peer_lstm.py"), *common], turn_taking.PEER),
    }
    turns = run_pair.measure_runs(options.dtype, sides, options, options.dtype, options.rounds, "tokens_per_second")
    memory = {}
    for side in sides:
        result[side] = [turn[side] for turn in turns]
        rate = statistics.median(r["tokens_per_second"] for r in result[side])
        memory[side] = max(r["peak_rss_bytes"] for r in result[side])
        print(f"{side:>8}: {rate:8,.0f} tokens/s  {memory[side] / 2**30:5.2f} GiB  loss {result[side][-1]['loss']:.4f}")
    result |= turn_taking.ratios(turns, lambda turn: turn["ours"]["tokens_per_second"] / turn["pytorch"]["tokens_per_second"])
    result |= {"memory_ratio": memory["ours"] / memory["pytorch"], "turns": turns}
    print(
        f"   ratio: {turn_taking.with_quartiles(result['ratio'])}, moved {turn_taking.moved_text(result)}; "
        f"memory {result['memory_ratio']:.2f}"
    )
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
