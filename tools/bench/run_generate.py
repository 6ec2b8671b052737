#!/usr/bin/env python3
"""Measures generating text, ours and PyTorch's in turns of a second, and prints a table with a row for each case.

    run_generate.py --presets width-768,gpt2 --dtypes fp32,bf16 --batches 1,8
    run_generate.py --presets gpt2 --dtypes bf16 --batches 1 --pairs 5 --ours=--weights=int8

Both processes live through all turns of a case, with their threads bound to a processor each, and wait while the other has
one (turns.py). A turn decodes some ids after a prompt, as often as a second allows. Printed are the medians of ids a
second, the median and the quartiles of the pairs' ratios, and the rate at which ours reads the weights beside the rate at
which the same memory can be read, measured within each of our turns. A step reads all weights at least once, so that rate
is the limit at batch 1. `moved` counts the pairs during which the machine's rates changed by more than a tenth.
Run it on an idle machine.
"""

import argparse
import json
import pathlib
import shlex
import statistics
import sys

import run_pair
import turns as turn_taking

HERE = pathlib.Path(__file__).resolve().parent
GOAL = 1.3  # times PyTorch's loop with a cache, in every case
READ_GOAL = 0.85  # of the machine's read rate, for one row: its time is that of reading the weights


def judged(r):
    """The goal of a case, and whether it is met."""
    goal, misses = f"{GOAL:g}", []
    if r["ratio"]["median"] < GOAL:
        misses.append(f"ratio {r['ratio']['median']:.2f} of {GOAL:g}")
    if r["batch"] == 1:
        goal += f", reading {READ_GOAL:g}"
        if r["share_of_read_rate"]["median"] < READ_GOAL:
            misses.append(f"reading {r['share_of_read_rate']['median']:.2f} of {READ_GOAL:g}")
    return goal, "missing: " + " and ".join(misses) if misses else "met"


class Generator(turn_taking.Side):
    """A program that decodes `tokens` ids of every row for each line, whatever the line says."""

    def __init__(self, command, ids, environment):
        super().__init__(command, environment)
        self.ids = ids  # of a line

    def turn(self, seconds):
        """As many lines as fill the seconds: their mean rate, and the medians of their other figures."""
        lines, took = [], 0.0
        while took < seconds:
            lines.append(super().turn(seconds))
            took += self.ids / lines[-1]["tokens_per_second"]
        medians = {k: statistics.median(line[k] for line in lines) for k, v in lines[0].items() if isinstance(v, float)}
        return medians | {"tokens_per_second": self.ids * len(lines) / took, "repeats": len(lines)}


def ratio_of(pair):
    return pair["ours"]["tokens_per_second"] / pair["peer"]["tokens_per_second"]


def measure(preset, dtype, batch, options):
    common = [f"--preset={preset}", f"--dtype={dtype}", f"--batch={batch}"]
    common += [f"--{name}={getattr(options, name)}" for name in ("prompt", "tokens", "temperature", "threads")]
    our_command = [str(pathlib.Path(options.bench) / "bench_generate"), *common, *options.ours]
    peer_command = [options.python, str(HERE / "peer_generate.py"), *common]
    ids = batch * options.tokens

    def report(pair):
        print(
            f"{preset} {dtype} batch {batch}: {pair['ours']['tokens_per_second']:.1f} and "
            f"{pair['peer']['tokens_per_second']:.1f} ids/s, ratio {ratio_of(pair):.2f}; "
            f"reading {pair['ours']['read_gb_per_second']:.1f} GB/s, {turn_taking.beside_text(pair)}",
            file=sys.stderr,
        )

    with (
        Generator(our_command, ids, turn_taking.OURS) as ours,
        Generator(peer_command, ids, turn_taking.PEER) as peer,
        turn_taking.Machine(options.bench, "width-768", dtype, options.threads) as machine,
    ):
        ours.turn(0.1), peer.turn(0.1)  # warm-up
        sides = {"ours": lambda: ours.turn(options.seconds), "peer": lambda: peer.turn(options.seconds)}
        turns = turn_taking.measure(sides, machine, options.pairs, report)
        last, last_peer = ours.finish(), peer.finish()

    def of_ours(name):
        return statistics.median(turn["ours"][name] for turn in turns)

    return {
        "preset": preset,
        "dtype": dtype,
        "batch": batch,
        "ours": of_ours("tokens_per_second"),
        "pytorch": statistics.median(turn["peer"]["tokens_per_second"] for turn in turns),
        **turn_taking.ratios(turns, ratio_of),
        "read_gb_per_second": of_ours("read_gb_per_second"),
        "weights_gb_per_second": of_ours("weights_gb_per_second"),
        "share_of_read_rate": turn_taking.spread([turn["ours"]["share_of_read_rate"] for turn in turns]),
        "prompt": {
            "ours": turns[0]["ours"]["prompt_tokens_per_second"],
            "pytorch": turns[0]["peer"]["prompt_tokens_per_second"],
        },
        "memory_ratio": last["peak_rss_bytes"] / last_peer["peak_rss_bytes"],
        "turns": turns,
    }


COLUMNS = ["model, dtype, batch", "Tessera, PyTorch: ids/s", "ratio", "moved", "weights, reading: GB/s", "of reading"]
COLUMNS += ["memory", "goal", ""]


def row(r):
    shares = r["share_of_read_rate"]
    cells = [
        f"{r['preset']} {r['dtype']}, {r['batch']}",
        f"{r['ours']:.1f}, {r['pytorch']:.1f}",
        turn_taking.with_quartiles(r["ratio"]),
        turn_taking.moved_text(r),
        f"{r['weights_gb_per_second']:.1f}, {r['read_gb_per_second']:.1f}",
        f"{100 * shares['median']:.0f} % ({100 * shares['quartiles'][0]:.0f}, {100 * shares['quartiles'][1]:.0f})",
        f"{r['memory_ratio']:.2f}",
        *judged(r),
    ]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    run_pair.add_tools(parser)
    parser.add_argument("--presets", default="width-768,gpt2", help="(default: %(default)s)")
    parser.add_argument("--dtypes", default="fp32,bf16", help="(default: %(default)s)")
    parser.add_argument("--batches", default="1,8", help="(default: %(default)s)")
    parser.add_argument("--prompt", type=int, default=32, help="ids of each row's prompt (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=16, help="ids after it, again and again in a turn (default: %(default)s)")
    parser.add_argument("--temperature", type=float, default=0.8, help="(default: %(default)s)")
    parser.add_argument("--pairs", "--turns", type=int, default=15, help="pairs of turns of each case (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=1, help="of a turn (default: %(default)s)")
    parser.add_argument("--ours", type=shlex.split, default=[], metavar="OPTIONS", help="more options of bench_generate")
    parser.add_argument("--json", help="write the results to this file too")
    options = parser.parse_args()
    if options.pairs < 1 or options.seconds <= 0:
        parser.error("--pairs and --seconds must be positive")

    result, failed = run_pair.machine(options) | {"cases": []}, False
    print("| " + " | ".join(COLUMNS) + " |\n|" + " --- |" * len(COLUMNS), flush=True)
    for preset in options.presets.split(","):
        for dtype in options.dtypes.split(","):
            for batch in options.batches.split(","):
                try:
                    result["cases"].append(measure(preset, dtype, int(batch), options))
                except SystemExit as error:
                    failed = True
                    print(f"{preset} {dtype}, {batch}: {error}", file=sys.stderr)
                    print(f"| {preset} {dtype}, {batch} | failed | | | | | | {GOAL:g} | not measured |", flush=True)
                    continue
                print(row(result["cases"][-1]), flush=True)
                if options.json:
                    pathlib.Path(options.json).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
