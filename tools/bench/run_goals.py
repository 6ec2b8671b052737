#!/usr/bin/env python3
"""Runs every row of the goals for one process, ours and PyTorch in turn, and prints each beside its goal.

    run_goals.py --json goals.json                    # all rows, three rounds: about forty minutes on two cores
    run_goals.py --rows nano-cpu/fp32,nano/bf16 --rounds 5

Each row is run_pair.py's measurement: same preset, batch, learning rates, threads and steps on both sides, in alternating
processes, and the rate of our matrix products in the same round. `ratio` is tokens per second over PyTorch's, the median of
the rounds with the lowest and the highest; `memory` is peak RSS over PyTorch's; `of products` is the whole step's FLOP/s
over that of a block's matrix products. The last step's losses are side by side: same configuration, other random
numbers. After the table come the other goals (own_goals.py): time in kernels, validation loss, recomputation.
Run it on an idle machine.
"""

import argparse
import dataclasses
import datetime
import json
import pathlib
import sys

import own_goals
import run_pair


@dataclasses.dataclass
class Goal:
    """A row: the measurement, and its goals (None: no goal)."""

    preset: str
    dtype: str
    steps: int
    skip: int
    ratio: float
    memory_ratio: float | None = None
    memory_gib: float | None = None
    of_products: float | None = None

    @property
    def name(self):
        return f"{self.preset}/{self.dtype}"


GOALS = [
    Goal("nano-cpu", "fp32", steps=300, skip=20, ratio=2.0, memory_gib=0.15),
    Goal("nano", "fp32", steps=4, skip=1, ratio=1.5, memory_ratio=0.4),
    Goal("width-768", "fp32", steps=8, skip=2, ratio=1.18, memory_ratio=0.7, of_products=0.9),
    Goal("gpt-lite", "fp32", steps=4, skip=1, ratio=2.5, memory_ratio=0.3),
    Goal("nano", "bf16", steps=4, skip=1, ratio=2.5),
    Goal("width-768", "bf16", steps=8, skip=2, ratio=2.0),
    Goal("gpt-lite", "bf16", steps=4, skip=1, ratio=5.0),
]


def misses(goal, result):
    """The goals that the row misses, as texts."""
    missing = []
    if result["ratio"]["median"] < goal.ratio:
        missing.append(f"ratio {result['ratio']['median']:.2f} of {goal.ratio:g}")
    if goal.memory_ratio is not None and result["memory_ratio"] > goal.memory_ratio:
        missing.append(f"memory {result['memory_ratio']:.2f} of {goal.memory_ratio:g}")
    gib = result["ours"]["peak_rss_bytes"] / 2**30
    if goal.memory_gib is not None and gib > goal.memory_gib:
        missing.append(f"memory {gib:.2f} of {goal.memory_gib:g} GiB")
    share = result["share_of_products"]["median"]
    if goal.of_products is not None and share < goal.of_products:
        missing.append(f"products {share:.2f} of {goal.of_products:g}")
    return missing


def side(s):
    return f"{s['tokens_per_second']:,.0f}; {s['gflops']:.0f}; {s['peak_rss_bytes'] / 2**30:.2f} GiB"


def goal_text(goal):
    texts = [f"{goal.ratio:g}"]
    if goal.memory_ratio is not None:
        texts.append(f"memory {goal.memory_ratio:g}")
    if goal.memory_gib is not None:
        texts.append(f"{goal.memory_gib:g} GiB")
    if goal.of_products is not None:
        texts.append(f"products {goal.of_products:g}")
    return ", ".join(texts)


def row(goal, result):
    r, f, missing = result["ratio"], result["share_of_products"], misses(goal, result)
    cells = [
        f"{goal.preset} {goal.dtype} ({result['batch_size']} x {result['block_size']})",
        side(result["ours"]),
        side(result["pytorch"]),
        f"{r['median']:.2f} ({r['lowest']:.2f} to {r['highest']:.2f})",
        f"{result['memory_ratio']:.2f}",
        f"{100 * f['median']:.0f} % of {result['products_gflops']:.0f}",
        f"{result['ours']['loss']:.3f}, {result['pytorch']['loss']:.3f}",
        goal_text(goal),
        "missing: " + ", ".join(missing) if missing else "met",
    ]
    return "| " + " | ".join(cells) + " |"


def save(report, path):
    """Writes the report; called after every row, so that an interrupted run keeps its rows."""
    if path:
        pathlib.Path(path).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    run_pair.add_tools(parser)
    names = ",".join([*(goal.name for goal in GOALS), *own_goals.GOALS])
    parser.add_argument("--rows", default=names, help="which, by name and commas (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--json", help="write all figures to this file")
    options = parser.parse_args()
    chosen = options.rows.split(",")
    for name in chosen:
        if name not in names.split(","):
            parser.error(f"--rows: '{name}' is none of {names}")

    report = {"program": "run_goals", "date": datetime.date.today().isoformat(), **run_pair.machine(options), "rows": []}
    print(f"{report['date']}, {report['processor']}, {report['threads']} threads, PyTorch {report['torch']}\n")
    pairs = [goal for goal in GOALS if goal.name in chosen]
    if pairs:
        print("| model (B x T) | Tessera: tokens/s; GFLOP/s; peak RSS | PyTorch | ratio | memory | of products | losses | goal | |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    met = 0
    for goal in pairs:
        result = run_pair.measure(goal.preset, goal.dtype, goal.steps, goal.skip, options.rounds, options)
        result |= {"goal": dataclasses.asdict(goal), "missing": misses(goal, result)}
        met += not result["missing"]
        report["rows"].append(result)
        print(row(goal, result), flush=True)
        save(report, options.json)
    if pairs:
        print()
    for name in (name for name in own_goals.GOALS if name in chosen):
        result = own_goals.GOALS[name](options, options.rounds)
        met += result["met"]
        report["rows"].append(result)
        print(f"- {result['name']}: {result['figures']}. Goal: {result['goal']}: {'met' if result['met'] else 'missing'}", flush=True)
        save(report, options.json)
    print(f"\n{met} of {len(report['rows'])} rows met", file=sys.stderr)


if __name__ == "__main__":
    main()
