#!/usr/bin/env python3
"""Bytes and time of a step under activation checkpointing: a table (Markdown), a CSV file and a plot (SVG).

    run_checkpointing.py --bench build/release/bin/bench/bench_checkpointing --csv out.csv --svg out.svg
    run_checkpointing.py --preset nano --rounds 5

The steps of all variants run in turn, so that ratios compare steps of the same minute. Run it on an idle machine.
"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys

import run_pair
import svg_plot


def rows_of(result):
    base = result["variants"][0]
    for v in result["variants"]:
        yield {
            "variant": v["name"],
            "budget MiB": f"{v['budget_bytes'] / 2**20:.1f}" if "budget_bytes" in v else "",
            "predicted MiB": f"{v['predicted_bytes'] / 2**20:.1f}",
            "measured MiB": f"{v['measured_bytes'] / 2**20:.1f}",
            "off by": f"{100 * (v['measured_bytes'] / v['predicted_bytes'] - 1):+.1f} %",
            "of all kept": f"{v['measured_bytes'] / base['measured_bytes']:.3f}",
            "elsewhere MiB": f"{v['measured_offload'] / 2**20:.1f}",
            "FLOPs": f"{v['predicted_flops']:.3f}",
            "time": f"{v['time']:.3f}",
            "same bits": "yes" if v["same_bits"] else "NO",
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    program = run_pair.BENCH + "/bench_checkpointing"
    parser.add_argument("--bench", default=program, help="the program (default: that of build/release)")
    parser.add_argument("--preset", default="gpt-lite")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--csv", type=pathlib.Path)
    parser.add_argument("--svg", type=pathlib.Path)
    o = parser.parse_args()
    command = [o.bench, "--preset", o.preset, "--rounds", str(o.rounds)]
    result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    rows = list(rows_of(result))
    columns = list(rows[0])
    print("| " + " | ".join(columns) + " |")
    print("| " + " | ".join("---" for _ in columns) + " |")
    for row in rows:
        print("| " + " | ".join(row.values()) + " |")
    if o.csv:
        with open(o.csv, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(rows)
    if o.svg:
        variants = result["variants"]
        base = variants[0]["measured_bytes"]
        svg_plot.plot(
            o.svg,
            f"{o.preset}: activations and time of a step",
            "bytes at the peak, of those with all kept",
            "time of a step, of that with all kept",
            [
                {
                    "name": "measured",
                    "labelled": True,
                    "points": [(v["measured_bytes"] / base, v["time"], v["name"]) for v in variants],
                },
                {
                    "name": "predicted (FLOPs)",
                    "hollow": True,
                    "points": [(v["predicted_bytes"] / base, v["predicted_flops"], v["name"]) for v in variants],
                },
            ],
        )
    wrong = [row["variant"] for row in rows if row["same bits"] != "yes"]
    if wrong:
        sys.exit(f"other bits: {wrong}")


if __name__ == "__main__":
    main()
