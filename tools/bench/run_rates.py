#!/usr/bin/env python3
"""The rates of our matrix products and of our attention at the models' sizes, in GFLOP/s, and of the machine's tiles, as
tables.

    run_rates.py                                  # five rounds: some minutes
    run_rates.py --rounds 1 --parts products

A round measures every preset's products (bench_products: forward and both gradients of a block's linear layers) and then
every case of bench_attention, with threads bound to processors, and what the tiles of each processor give at the moment
(bench_tiles); a rate is the median of the rounds with its quartiles, and moves with the machine. Attention's FLOP/s count
the pairs of a query and a key that it sees, as profiles do. No peer: the rates say what a step is made of. Run it on an idle machine.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

import run_pair
import turns

PRESETS = ["nano-cpu", "nano", "width-768", "gpt-lite"]
DTYPES = ["fp32", "bf16"]
TILE_COLUMNS = ["median", "best", "%_of_turns_above_half_of_it"]
PARTS = ["tiles", "products", "attention"]


def products(options):
    """GFLOP/s by preset and dtype, and the copy rate beside them."""
    rates = {}
    for preset in PRESETS:
        for dtype in DTYPES:
            with turns.Machine(options.bench, preset, dtype, options.threads) as machine:
                found = machine.rates()
            rates[f"{preset} {dtype}"] = found["gflops"]
            rates.setdefault("copy", found["copy_rate"] / 1e9)
    return rates


def attention(options):
    """GFLOP/s by size, dtype and direction."""
    environment = os.environ | turns.OURS | {"TESSERA_NUM_THREADS": str(options.threads)}
    command = [str(pathlib.Path(options.bench) / "bench_attention"), "--benchmark_format=json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise SystemExit(f"exit status {done.returncode} from: {' '.join(command)}\n{done.stderr}")
    rates = {}
    for found in json.loads(done.stdout)["benchmarks"]:
        dtype, size, direction, *more = found["name"].split("/")
        if "dropout" in more:
            size += " with dropout"
        rates[f"{size} {dtype} {direction}"] = found["FLOP/s"] / 1e9
    return rates


def tiles(options):
    """GFLOP/s of one thread while all run, by pattern: the median of the turns, the best, and the share of fast turns."""
    environment = os.environ | turns.OURS
    command = [str(pathlib.Path(options.bench) / "bench_tiles"), "--turns", "500", "--threads", str(options.threads)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    if done.returncode != 0:
        print(done.stderr.strip(), file=sys.stderr)
        return {}
    rates = {}
    line = re.compile(r"(.*\S) +\d+ +(\d+) +\d+ +best +(\d+), above half of it in +(\d+) %")
    for name, median, best, share in line.findall(done.stdout):
        for column, value in zip(TILE_COLUMNS, (median, best, share)):
            rates[f"{name} {column}"] = float(value)
    return rates


def in_columns(found, columns):
    """Rows `name -> cells` from entries named "row column"."""
    rows = {}
    for name, spread in found.items():
        row, column = name.rsplit(" ", 1)
        rows.setdefault(row, {})[column] = turns.with_quartiles(spread, 0)
    return {row: [cells.get(column, "") for column in columns] for row, cells in rows.items()}


def print_table(title, columns, rows):
    print(f"| {title} | {' | '.join(columns)} |\n|{' --- |' * (1 + len(columns))}")
    for name, cells in rows.items():
        print(f"| {name} | {' | '.join(cells)} |")
    print(flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    run_pair.add_tools(parser)
    parser.add_argument("--parts", default=",".join(PARTS), help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="(default: %(default)s)")
    parser.add_argument("--json", help="write all figures to this file")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be positive")
    parts = options.parts.split(",")
    for part in parts:
        if part not in PARTS:
            parser.error(f"--parts: '{part}' is none of {', '.join(PARTS)}")
    for part in list(parts):
        program = pathlib.Path(options.bench) / f"bench_{part}"
        if not program.exists():
            more = " (it needs Google Benchmark, libbenchmark-dev)" if part == "attention" else ""
            print(f"missing: {program}{more}", file=sys.stderr)
            parts.remove(part)
    missing = len(parts) < len(options.parts.split(","))

    result = run_pair.machine(options)
    measured = {part: [] for part in parts}
    for i in range(options.rounds):
        for part in parts:
            measured[part].append({"tiles": tiles, "products": products, "attention": attention}[part](options))
        print(f"round {i + 1} of {options.rounds}", file=sys.stderr)
    for part, rounds in measured.items():
        result[part] = {name: turns.spread([rates[name] for rates in rounds]) for name in rounds[0]}
    if result.get("tiles"):
        print_table("tiles, GFLOP/s of one thread", TILE_COLUMNS, in_columns(result["tiles"], TILE_COLUMNS))
    if "products" in measured:
        copy = result["products"].pop("copy")
        print_table("products, GFLOP/s", DTYPES, in_columns(result["products"], DTYPES))
        print(f"Copying memory: {turns.with_quartiles(copy, 1)} GB/s.\n", flush=True)
        result["copy_gb_per_second"] = copy
    if "attention" in measured:
        columns = ["forward", "backward"]
        print_table("attention, GFLOP/s", columns, in_columns(result["attention"], columns))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
