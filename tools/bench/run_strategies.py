#!/usr/bin/env python3
"""Strategies, checkpointing and pipeline stages on three small models: a table (CSV) and a plot (SVG) for each model.

    run_strategies.py --ranks 8 --out build/strategies            # 8 processes under mpirun, some minutes on two cores
    run_strategies.py --models gpt-lite --rounds 3 --out build/strategies

The rows are those of DeepSpeed's comparisons: ZeRO stages 0 to 3, stage 3 with a checkpoint at every layer and with the
kept inputs in the CPU's memory, and pipelines of 1, 2, 4 and 8 stages with stage 1 over the other ranks. The global batch
and the micro-batch are the same in all rows. Memory is what a rank holds at most in a step: the mean over the ranks, and
the most of a rank; `gap explained` is the part of their difference that activations, gradients and communication have.
Offload of parameters and optimizer state is not there. With more processes than cores the rates say how much work a row
has, not how fast a cluster is. Run it on an idle machine.
"""

import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys

import run_pair
import svg_plot

ROWS = {
    "stage 0": ["--strategy", "no_shard"],
    "stage 1": ["--strategy", "shard_optim"],
    "stage 2": ["--strategy", "shard_grad_op"],
    "stage 3": ["--strategy", "full_shard"],
    "stage 3, checkpoints": ["--strategy", "full_shard", "--activation-checkpoint-interval", "1"],
    "stage 3, inputs in CPU memory": [
        "--strategy", "full_shard", "--activation-checkpoint-interval", "1", "--activation-offload", "cpu"],
    "1 pipeline stage": ["--strategy", "shard_optim", "--stages", "1"],
    "2 pipeline stages": ["--strategy", "shard_optim", "--stages", "2"],
    "4 pipeline stages": ["--strategy", "shard_optim", "--stages", "4"],
    "8 pipeline stages": ["--strategy", "shard_optim", "--stages", "8"],
}
SHORT = ["0", "1", "2", "3", "3 ckpt", "3 CPU", "p1", "p2", "p4", "p8"]


def run(bench, ranks, model, options):
    command = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none", bench, "--model", model, *options]
    environment = dict(os.environ, TESSERA_NUM_THREADS="1")
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


def memory_of(result):
    """Mean and largest peak of the ranks in MiB, and the part of their difference by category."""
    peaks = [rank["peak"] for rank in result["memory"]]
    largest = result["memory"][peaks.index(max(peaks))]
    gap = max(peaks) - statistics.mean(peaks)
    parts = {}
    for category in largest:
        if category != "peak":
            parts[category] = largest[category] - statistics.mean(rank[category] for rank in result["memory"])
    named = sum(parts.get(c, 0) for c in ("parameter", "optimizer_state", "gradient", "activation", "communication"))
    return statistics.mean(peaks) / 2**20, max(peaks) / 2**20, named / gap if gap > 2**10 else None, parts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    program = run_pair.BENCH + "/bench_strategies"
    parser.add_argument("--bench", default=program, help="the program (default: that of build/release)")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--models", nargs="+", default=["wide", "deep", "gpt-lite"])
    parser.add_argument("--rounds", type=int, default=1, help="runs of each row, in turn; the rate is their median")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the tables and plots")
    o = parser.parse_args()
    o.out.mkdir(parents=True, exist_ok=True)
    for model in o.models:
        results = {name: [] for name in ROWS}
        for _ in range(o.rounds):
            for name, options in ROWS.items():
                results[name].append(run(o.bench, o.ranks, model, options))
        table = []
        for name, runs in results.items():
            mean, largest, explained, _ = memory_of(runs[0])
            table.append({
                "row": name,
                "samples/s": f"{statistics.median(r['samples_per_second'] for r in runs):.1f}",
                "mean MiB": f"{mean:.2f}",
                "largest MiB": f"{largest:.2f}",
                "gap explained": "" if explained is None else f"{explained:.3f}",
                "loss": f"{runs[0]['loss']:.6f}",
            })
            print(model, *table[-1].values(), sep="\t", flush=True)
        with open(o.out / f"{model}.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]))
            writer.writeheader()
            writer.writerows(table)

        def points(column, scale=1.0):
            return [(i, float(row[column]) * scale, row["row"]) for i, row in enumerate(table)]

        fastest = max(float(row["samples/s"]) for row in table)
        most = max(float(row["largest MiB"]) for row in table)
        svg_plot.plot(
            o.out / f"{model}.svg",
            f"{model} on {o.ranks} ranks: up to {fastest:.0f} samples/s and {most:.1f} MiB",
            "ZeRO stage, or stages of a pipeline (p)",
            "of the largest in the plot",
            [
                {"name": "samples a second", "joined": True, "points": points("samples/s", 1 / fastest)},
                {"name": "largest memory of a rank", "joined": True, "points": points("largest MiB", 1 / most)},
                {"name": "mean memory of the ranks", "joined": True, "points": points("mean MiB", 1 / most)},
            ],
            SHORT,
        )


if __name__ == "__main__":
    main()
