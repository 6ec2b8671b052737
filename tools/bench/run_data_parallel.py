#!/usr/bin/env python3
"""Data-parallel training, ours beside PyTorch's DDP and FSDP2 and DeepSpeed's ZeRO 0 to 3, in alternating runs on one machine.

    run_data_parallel.py --json data_parallel.json                # four models, three rounds: about half an hour on two cores
    run_data_parallel.py --models deep --rounds 5 --peers fsdp2,zero-3

Two processes of one thread each (ours under mpirun, the peers over gloo), f32, fused AdamW, no clipping, denormals flushed;
`single` is one process of two threads with the same global batch. A round runs every side once, in an order that
rotates by one from round to round; rates are medians over the rounds. `goal` is the required ratio: full_shard over the
better of FSDP2 and ZeRO-3, no_shard over the better of DDP and ZeRO-0, and both over our own single process.
Before the rounds each peer runs once under each of its settings; the fastest setting is used.
Run it on an idle machine.
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys

import run_pair

OURS = ["single", "no_shard", "shard_optim", "shard_grad_op", "full_shard"]
PEERS = ["single", "ddp", "fsdp2", "zero-0", "zero-1", "zero-2", "zero-3"]
# Settings that a peer may be faster with than with its first ones. By default DeepSpeed leaves parameters of up to
# 100,000 elements unsharded under ZeRO-3, which costs memory; ours shards them all.
SETTINGS = {
    "ddp": [[], ["--pin"], ["--bucket-mb", "5"]],
    "fsdp2": [[], ["--pin"]],
    "zero-0": [[], ["--pin"]],
    "zero-1": [[], ["--pin"]],
    "zero-2": [[], ["--pin"]],
    "zero-3": [[], ["--pin"], ["--persistence-threshold", "100000"]],
}


@dataclasses.dataclass
class Goal:
    """The goals of a model: ratios to peers and to our one process, and rates (None: no goal)."""

    steps: int
    skip: int
    full_over: tuple
    full_ratio: float
    no_over: tuple
    no_ratio: float
    full_of_single: float | None = None
    no_of_single: float | None = None
    full_rate: float | None = None
    no_rate: float | None = None


BEST_SHARDED, BEST_UNSHARDED = ("fsdp2", "zero-3"), ("ddp", "zero-0")
GOALS = {
    "nano-cpu": Goal(150, 20, BEST_SHARDED, 2.8, BEST_UNSHARDED, 1.8),
    "width-768": Goal(6, 2, BEST_SHARDED, 1.5, (), 0.0, full_of_single=0.85, no_of_single=0.92),
    "wide": Goal(20, 4, BEST_SHARDED, 2.5, BEST_UNSHARDED, 1.5),
    "deep": Goal(20, 4, ("zero-3",), 3.0, ("ddp",), 1.6, full_rate=450, no_rate=800),
}


def last_object(output):
    """The JSON object on the last line that is one."""
    lines = [line for line in output.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else None


def run(command):
    root_may_run = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **root_may_run}, check=False)
    result = last_object(done.stdout)
    if done.returncode != 0 or result is None:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stderr[-2000:]}")
    return result


def command_of(tools, side, strategy, model, goal):
    steps = ["--model", model, "--strategy", strategy, "--steps", str(goal.steps), "--skip", str(goal.skip)]
    if side == "peer":
        return [tools.python, pathlib.Path(__file__).with_name("peer_data_parallel.py"), *steps]
    profile = ["--profile-steps", str(max(1, goal.steps // 5))]
    mpirun = [] if strategy == "single" else ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", "2"]
    return [*mpirun, tools.program, *steps, *profile]


def best_settings(tools, strategy, model, goal):
    """The settings of a peer with the highest rate, in one run each."""
    choices = SETTINGS.get(strategy, [[]])
    if len(choices) == 1 or tools.no_tuning:
        return choices[0]
    rates = [run([*command_of(tools, "peer", strategy, model, goal), *more])["rate"] for more in choices]
    return choices[rates.index(max(rates))]


def measure(tools, model, ours, peers, rounds):
    """Every side's runs: {"ours/full_shard": {"rate": median, "rates": [...], ...}}."""
    goal = GOALS[model]
    sides = [("ours", s) for s in ours] + [("peer", s) for s in peers]
    runs = {side: [] for side in sides}
    settings = {("peer", s): best_settings(tools, s, model, goal) for s in peers}
    for turn in range(rounds):
        for side in sides[turn % len(sides) :] + sides[: turn % len(sides)]:
            result = run([*command_of(tools, *side, model, goal), *settings.get(side, [])])
            runs[side].append(result)
            print(f"  {model} round {turn + 1}: {'/'.join(side):20} {result['rate']:10,.0f}", file=sys.stderr)
    sizes = {result["parameters"] for results in runs.values() for result in results}
    if len(sizes) != 1:
        sys.exit(f"{model}: the sides train different models, of {sorted(sizes)} parameters")
    table = {}
    for (side, strategy), results in runs.items():
        rates = [r["rate"] for r in results]
        entry = {"rate": statistics.median(rates), "rates": rates}
        entry["peak_rss_bytes"] = max(r["peak_rss_bytes"] for r in results)
        if side == "peer":
            entry |= {"settings": settings[side, strategy], "version": results[0]["version"]}
        if "waiting_share" in results[0]:
            entry["waiting_share"] = statistics.median(r["waiting_share"] for r in results)
        table[f"{side}/{strategy}"] = entry
    return table


def ratio_to(table, ours, names):
    """Ours over the best of `names`, and its name; None where one of them was not run."""
    rates = {name: table[name]["rate"] for name in names if name in table}
    if ours not in table or len(rates) < len(names) or not rates:
        return None
    best = max(rates, key=rates.get)
    return {"ratio": table[ours]["rate"] / rates[best], "over": best}


def goals_of(model, table):
    """Lines (text, measured, goal)."""
    goal, lines = GOALS[model], []
    for ours, over, ratio, of_single, rate in (
        ("ours/full_shard", goal.full_over, goal.full_ratio, goal.full_of_single, goal.full_rate),
        ("ours/no_shard", goal.no_over, goal.no_ratio, goal.no_of_single, goal.no_rate),
    ):
        found = ratio_to(table, ours, [f"peer/{name}" for name in over])
        if found:
            lines.append((f"{ours[5:]} over {found['over'][5:]}", found["ratio"], ratio))
        found = ratio_to(table, ours, ["ours/single"])
        if found:
            lines.append((f"{ours[5:]} over our one process", found["ratio"], of_single))
        if rate and ours in table:
            lines.append((f"{ours[5:]}, a second", table[ours]["rate"], rate))
    return lines


def print_model(model, table, lines):
    print(f"\n{model}\n")
    for name, entry in table.items():
        waiting = f"   waiting {100 * entry['waiting_share']:4.1f} %" if "waiting_share" in entry else ""
        low, high = min(entry["rates"]), max(entry["rates"])
        memory = entry["peak_rss_bytes"] / 2**30
        more = "   " + " ".join(entry["settings"]) if entry.get("settings") else ""
        print(f"  {name:22} {entry['rate']:10,.0f}  ({low:,.0f} to {high:,.0f})  {memory:5.2f} GiB{waiting}{more}")
    for text, measured, goal in lines:
        outcome = "" if goal is None else f"   goal {goal:g}{'' if measured >= goal else '   MISSED'}"
        print(f"  {text:40} {measured:10,.2f}{outcome}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, help="bench_data_parallel (default: that of build/release)")
    parser.add_argument("--python", default=sys.executable, help="with PyTorch and DeepSpeed (default: this one)")
    parser.add_argument("--models", default=",".join(GOALS), help="(default: %(default)s)")
    parser.add_argument("--ours", default=",".join(OURS), help="(default: %(default)s)")
    parser.add_argument("--peers", default=",".join(PEERS), help="(default: %(default)s)")
    parser.add_argument("--no-tuning", action="store_true", help="every peer under its first settings")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--json", type=pathlib.Path, help="file: all figures")
    tools = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parents[2]
    tools.program = tools.program or root / "build/release/bin/bench/bench_data_parallel"
    for model in tools.models.split(","):
        if model not in GOALS:
            parser.error(f"no model '{model}'; there are {', '.join(GOALS)}")

    report = {"date": datetime.date.today().isoformat(), "rounds": tools.rounds, "models": {}}
    tools.threads = 2
    report["machine"] = run_pair.machine(tools)
    for model in tools.models.split(","):
        table = measure(tools, model, tools.ours.split(","), [p for p in tools.peers.split(",") if p], tools.rounds)
        lines = goals_of(model, table)
        report["models"][model] = {"sides": table, "goals": lines}
        print_model(model, table, lines)
        if tools.json:
            tools.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
