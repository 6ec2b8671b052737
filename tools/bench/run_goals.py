#!/usr/bin/env python3
"""Runs every row of the goals for one process, ours and PyTorch in turn, and prints each beside its goal.

    run_goals.py --json goals.json                    # all rows, fifteen pairs: about an hour on two cores
    run_goals.py --rows nano-cpu/fp32,nano/bf16 --pairs 5

Each row of the table is run_pair.py's measurement: same preset, batch, learning rates and threads on both sides, in turns
of a second, and the rates of our matrix products and of a copy before and after each pair. `ratio` is tokens per second
over PyTorch's, the median of the pairs with its quartiles; `moved` counts the pairs during which a rate of the machine
changed by more than a tenth, with the median ratio of the other pairs where they are three or more; `memory` is peak RSS
over PyTorch's; `of products` is the whole step's FLOP/s over that of a block's matrix products. After the table come the
other goals of one process (own_goals.py): the wide network, time in kernels, validation loss, recomputation. A row that
fails is printed as such, and the exit status is 1. goals.sh sets up what this needs and measures the other goals too.
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
import turns


@dataclasses.dataclass
class Goal:
    """A row and its goals (None: no goal).

    PyTorch's own products are at the machine's rate on some processors, and no step can then be much faster. So a goal may
    have an `alternative`: a lower ratio, beside a higher share of the products' rate.
    """

    preset: str
    dtype: str
    ratio: float
    ratio_with_tiles: float | None = None  # where the processor has AMX's tiles, if another
    memory_ratio: float | None = None
    memory_gib: float | None = None
    of_products: float | None = None
    alternative: tuple[float, float] | None = None  # ratio and of_products

    @property
    def name(self):
        return f"{self.preset}/{self.dtype}"


GOALS = [
    Goal("nano-cpu", "fp32", ratio=2.0, memory_gib=0.15),
    Goal("nano", "fp32", ratio=2.0, memory_ratio=0.4),
    Goal("width-768", "fp32", ratio=1.2, memory_ratio=0.7, of_products=0.9, alternative=(1.05, 0.95)),
    Goal("gpt-lite", "fp32", ratio=5.0, memory_ratio=0.3),
    Goal("nano", "bf16", ratio=4.0),
    Goal("width-768", "bf16", ratio=1.5, ratio_with_tiles=2.0),
    Goal("gpt-lite", "bf16", ratio=5.0, ratio_with_tiles=8.0),
]


def has_tiles():
    return " amx_bf16 " in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")


def for_this_processor(goal):
    return dataclasses.replace(goal, ratio=goal.ratio_with_tiles) if goal.ratio_with_tiles and has_tiles() else goal


def below(result, ratio, of_products):
    """Which of the two are missed, as texts."""
    found, share = result["ratio"]["median"], result["share_of_products"]["median"]
    missing = [f"ratio {found:.3f} of {ratio:g}"] if found < ratio else []
    return missing + ([f"products {share:.3f} of {of_products:g}"] if of_products is not None and share < of_products else [])


def misses(goal, result):
    """The goals that the row misses, as texts."""
    choices = [below(result, goal.ratio, goal.of_products)]
    if goal.alternative is not None:
        choices.append(below(result, *goal.alternative))
    missing = [" or ".join(" and ".join(choice) for choice in choices)] if all(choices) else []
    if goal.memory_ratio is not None and result["memory_ratio"] > goal.memory_ratio:
        missing.append(f"memory {result['memory_ratio']:.2f} of {goal.memory_ratio:g}")
    gib = result["ours"]["peak_rss_bytes"] / 2**30
    if goal.memory_gib is not None and gib > goal.memory_gib:
        missing.append(f"memory {gib:.2f} of {goal.memory_gib:g} GiB")
    return missing


def side(s):
    return f"{s['tokens_per_second']:,.0f}; {s['gflops']:.0f}; {s['peak_rss_bytes'] / 2**30:.2f} GiB"


def goal_text(goal):
    texts = [f"{goal.ratio:g}"]
    if goal.of_products is not None:
        texts[0] += f" and products {goal.of_products:g}"
    if goal.alternative is not None:
        texts[0] += f" or {goal.alternative[0]:g} and products {goal.alternative[1]:g}"
    if goal.memory_ratio is not None:
        texts.append(f"memory {goal.memory_ratio:g}")
    if goal.memory_gib is not None:
        texts.append(f"{goal.memory_gib:g} GiB")
    return ", ".join(texts)


def row(goal, result):
    f, missing = result["share_of_products"], misses(goal, result)
    cells = [
        f"{goal.preset} {goal.dtype} ({result['batch_size']} x {result['block_size']})",
        side(result["ours"]),
        side(result["pytorch"]),
        turns.with_quartiles(result["ratio"]),
        turns.moved_text(result),
        f"{result['memory_ratio']:.2f}",
        f"{100 * f['median']:.0f} % of {result['products_gflops']:.0f}",
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
    parser.add_argument("--pairs", type=int, default=15, help="of turns in a row (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=1, help="of a turn (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of the goals after the table (default: %(default)s)")
    parser.add_argument("--json", help="write all figures to this file")
    options = parser.parse_args()
    chosen = options.rows.split(",")
    for name in chosen:
        if name not in names.split(","):
            parser.error(f"--rows: '{name}' is none of {names}")

    if options.pairs < 1 or options.seconds <= 0 or options.rounds < 1:
        parser.error("--pairs, --seconds and --rounds must be positive")

    report = {"program": "run_goals", "date": datetime.date.today().isoformat(), **run_pair.machine(options), "rows": []}
    processor = f"{report['processor']}, {report['threads']} threads, PyTorch {report['torch']}"
    print(f"{report['date']}, {processor}", file=sys.stderr)
    failed = []

    def measured(name, measure):
        """The row's result; None where it fails."""
        try:
            result = measure()
        except SystemExit as error:
            failed.append(name)
            print(f"{name}: {error}", file=sys.stderr)
            return None
        report["rows"].append(result)
        return result

    rows = [for_this_processor(goal) for goal in GOALS if goal.name in chosen]
    if rows:
        columns = "model (B x T) | Tessera: tokens/s; GFLOP/s; peak RSS | PyTorch | ratio | moved | memory | of products | goal"
        print(f"| {columns} | |\n|{' --- |' * 9}", flush=True)
    met = 0
    for goal in rows:
        result = measured(
            goal.name, lambda: run_pair.measure(goal.preset, goal.dtype, options.pairs, options.seconds, options)
        )
        if result:
            result |= {"goal": dataclasses.asdict(goal), "missing": misses(goal, result)}
            met += not result["missing"]
        failure = f"| {goal.preset} {goal.dtype} | failed | | | | | | {goal_text(goal)} | not measured |"
        print(row(goal, result) if result else failure, flush=True)
        save(report, options.json)
    if rows:
        print()
    for name, measure in own_goals.GOALS.items():
        if name not in chosen:
            continue
        result = measured(name, lambda: measure(options, options.rounds))
        if result:
            met += result["met"]
            outcome = "met" if result["met"] else "missing"
            print(f"- {result['name']}: {result['figures']}. Goal: {result['goal']}: {outcome}", flush=True)
        else:
            print(f"- {name}: failed, not measured", flush=True)
        save(report, options.json)
    print(f"{met} of {len(report['rows'])} rows met" + (f"; failed: {', '.join(failed)}" if failed else ""), file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
