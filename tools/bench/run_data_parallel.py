#!/usr/bin/env python3
"""Data-parallel training, ours beside PyTorch's DDP and FSDP2 and DeepSpeed's ZeRO 0 to 3, in alternating runs on one machine.

    run_data_parallel.py --models nano-cpu,wide --ours no_shard --peers ddp
    run_data_parallel.py --models deep --rounds 5 --peers fsdp2,zero-3
    run_data_parallel.py --models wide --ours single --peers single --no-tuning

Two processes of one thread each (ours under mpirun, the peers over gloo), f32, fused AdamW, no clipping, denormals flushed;
`single` is one process of two threads with the same global batch. A side's run is a whole process, or two, of some seconds:
ranks agree on their number of steps before they begin, so they cannot step by turns. A round runs every side once, ours and
a peer alternating, in an order that rotates by two from round to round. The machine's own rates are measured between all
runs. A ratio is that of two runs of the same round; a pair has moved where a rate differs by more than a tenth among those
around its two runs. `goal` is the required median ratio: full_shard over the better of FSDP2 and ZeRO-3, no_shard over the
better of DDP and ZeRO-0 (those of them that were run), and both over our own single process.
Before the rounds each peer runs once under each of its settings; the fastest setting is used. --no-tuning leaves this out.
Peers that need a missing package are left out, with a line on it; a model that fails is printed as such, the others go on,
and the exit status is 1. Run it on an idle machine.
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

import run_pair
import turns as turn_taking

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
    "nano-cpu": Goal(60, 10, BEST_SHARDED, 4.0, BEST_UNSHARDED, 1.8),
    "width-768": Goal(6, 2, BEST_SHARDED, 2.0, (), 0.0, full_of_single=0.85, no_of_single=0.92),
    "wide": Goal(20, 4, BEST_SHARDED, 3.5, BEST_UNSHARDED, 1.5),
    "deep": Goal(20, 4, ("zero-3",), 8.0, ("ddp",), 1.6, full_rate=450, no_rate=800),
}


def last_object(output):
    """The JSON object on the last line that is one."""
    lines = [line for line in output.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else None


def run(command, environment):
    root_may_run = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | root_may_run | environment, check=False)
    except FileNotFoundError as error:
        sys.exit(f"missing: {error.filename}")
    result = last_object(done.stdout)
    if done.returncode != 0 or result is None:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stderr[-2000:]}")
    return result


def environment_of(side, strategy):
    """Ranks of one thread have no threads to bind; of the peers' (--pin) that is a setting."""
    return turn_taking.OURS if side == "ours" else turn_taking.PEER if strategy == "single" else {}


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
    command, environment = command_of(tools, "peer", strategy, model, goal), environment_of("peer", strategy)
    rates = [run([*command, *more], environment)["rate"] for more in choices]
    return choices[rates.index(max(rates))]


def alternating(ours, peers):
    """The sides in the order of a round: ours and a peer in turn, each beside the peer that does the same."""
    alike = {
        "no_shard": BEST_UNSHARDED,
        "shard_optim": ["zero-1"],
        "shard_grad_op": ["zero-2"],
        "full_shard": BEST_SHARDED,
    }
    first = {o: next((p for p in alike.get(o, [o]) if p in peers), None) for o in ours}
    others = iter([p for p in peers if p not in first.values()])
    pairs = [(o, first[o] or next(others, None)) for o in ours]
    sides = [side for o, p in pairs for side in (("ours", o), ("peer", p)) if side[1]]
    return sides + [("peer", p) for p in others]


def measure(tools, model, ours, peers, rounds):
    """All runs of a model: {"sides": {"ours/full_shard": {"rate": median, ...}}, "rounds": [{side: run}]}."""
    goal, sides, table = GOALS[model], alternating(ours, peers), []
    settings = {("peer", s): best_settings(tools, s, model, goal) for s in peers}
    preset = model if model in ("nano-cpu", "width-768") else "width-768"
    with turn_taking.Machine(tools.bench, preset, "fp32", 2) as machine:
        after = machine.rates()
        for i in range(rounds):
            first, runs = 2 * i % len(sides), {}
            for side in sides[first:] + sides[:first]:
                before, command = after, [*command_of(tools, *side, model, goal), *settings.get(side, [])]
                result = run(command, environment_of(*side))
                after = machine.rates()
                runs["/".join(side)] = result | {"rates_around": [before, after]}
                print(
                    f"{model} round {i + 1}: {'/'.join(side):20} {result['rate']:10,.0f}; "
                    f"{turn_taking.beside_text(turn_taking.beside([before, after]))}",
                    file=sys.stderr,
                )
            table.append(runs)
    sizes = {result["parameters"] for runs in table for result in runs.values()}
    if len(sizes) != 1:
        sys.exit(f"{model}: the sides train different models, of {sorted(sizes)} parameters")
    return {"sides": {"/".join(side): summary(table, side, settings.get(side)) for side in sides}, "rounds": table}


def summary(table, side, settings):
    results = [runs["/".join(side)] for runs in table]
    rates = [r["rate"] for r in results]
    entry = {"rate": statistics.median(rates), "rates": rates, "unit": results[0]["unit"]}
    entry["peak_rss_bytes"] = max(r["peak_rss_bytes"] for r in results)
    if side[0] == "peer":
        entry |= {"settings": settings, "version": results[0]["version"]}
    if "waiting_share" in results[0]:
        entry["waiting_share"] = statistics.median(r["waiting_share"] for r in results)
    return entry


def ratio_to(measured, ours, names):
    """Ours over the best of `names`: paired ratios, and its name; None where ours or all of them were not run."""
    rates = {name: measured["sides"][name]["rate"] for name in names if name in measured["sides"]}
    if ours not in measured["sides"] or not rates:
        return None
    best = max(rates, key=rates.get)
    pairs = []
    for runs in measured["rounds"]:
        around = turn_taking.beside(runs[ours]["rates_around"] + runs[best]["rates_around"])
        pairs.append({"ratio": runs[ours]["rate"] / runs[best]["rate"], **around})
    missing = [name[5:] for name in names if name not in rates]
    return turn_taking.ratios(pairs, lambda pair: pair["ratio"]) | {"over": best[5:], "not_run": missing}


def goals_of(model, measured):
    """Lines: text, figures (`ratios` of the pairs, or a rate), goal or None."""
    goal, lines = GOALS[model], []
    found = ratio_to(measured, "ours/single", ["peer/single"])
    if found:
        lines.append({"text": "one process over PyTorch's", "goal": None, **found})
    for ours, over, ratio, of_single, rate in (
        ("ours/full_shard", goal.full_over, goal.full_ratio, goal.full_of_single, goal.full_rate),
        ("ours/no_shard", goal.no_over, goal.no_ratio, goal.no_of_single, goal.no_rate),
    ):
        found = ratio_to(measured, ours, [f"peer/{name}" for name in over])
        if found:
            without = f" ({', '.join(found['not_run'])} not run)" if found["not_run"] else ""
            lines.append({"text": f"{ours[5:]} over {found['over']}{without}", "goal": ratio, **found})
        found = ratio_to(measured, ours, ["ours/single"])
        if found:
            lines.append({"text": f"{ours[5:]} over our one process", "goal": of_single, **found})
        if rate and ours in measured["sides"]:
            lines.append({"text": f"{ours[5:]}, a second", "goal": rate, "rate": measured["sides"][ours]["rate"]})
    for line in lines:
        figure = line["rate"] if "rate" in line else line["ratio"]["median"]
        line["met"] = None if line["goal"] is None else figure >= line["goal"]
    return lines


def print_model(model, measured, lines):
    unit = next(iter(measured["sides"].values()))["unit"]
    print(f"{model}, {unit} a second:\n")
    print("| side | median (quartiles) | peak RSS | waiting | settings |\n| --- | --- | --- | --- | --- |")
    for name, entry in measured["sides"].items():
        waiting = f"{100 * entry['waiting_share']:.1f} %" if "waiting_share" in entry else ""
        low, high = turn_taking.spread(entry["rates"])["quartiles"]
        memory, settings = f"{entry['peak_rss_bytes'] / 2**30:.2f} GiB", " ".join(entry.get("settings") or [])
        label = name.replace("ours/", "Tessera ").replace("peer/", "PyTorch " if "zero" not in name else "DeepSpeed ")
        print(f"| {label} | {entry['rate']:,.0f} ({low:,.0f}, {high:,.0f}) | {memory} | {waiting} | {settings} |")
    print("\n| | ratio of the pairs | moved | goal | |\n| --- | --- | --- | --- | --- |")
    for line in lines:
        figure = turn_taking.with_quartiles(line["ratio"]) if "ratio" in line else f"{line['rate']:,.0f}"
        moved = turn_taking.moved_text(line) if "ratio" in line else ""
        goal = "" if line["goal"] is None else f"{line['goal']:g}"
        outcome = {None: "", True: "met", False: "missing"}[line["met"]]
        print(f"| {line['text']} | {figure} | {moved} | {goal} | {outcome} |")
    print(flush=True)


def without_missing_packages(tools, peers):
    """The peers without those whose package is not there."""
    if not any(peer.startswith("zero") for peer in peers):
        return peers
    found = subprocess.run([tools.python, "-c", "import deepspeed"], capture_output=True, check=False)
    if found.returncode == 0:
        return peers
    print(f"deepspeed cannot be imported by {tools.python}: the peers zero-0 to zero-3 are left out", file=sys.stderr)
    return [peer for peer in peers if not peer.startswith("zero")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default=run_pair.BENCH, help="the folder of our programs (default: that of build/release)")
    parser.add_argument("--program", help="bench_data_parallel (default: that of --bench)")
    parser.add_argument("--python", default=sys.executable, help="with PyTorch and DeepSpeed (default: this one)")
    parser.add_argument("--models", default=",".join(GOALS), help="(default: %(default)s)")
    parser.add_argument("--ours", default=",".join(OURS), help="(default: %(default)s)")
    parser.add_argument("--peers", default=",".join(PEERS), help="(default: %(default)s)")
    parser.add_argument("--no-tuning", action="store_true", help="every peer under its first settings")
    parser.add_argument("--rounds", type=int, default=15, help="(default: %(default)s)")
    parser.add_argument("--json", type=pathlib.Path, help="file: all figures")
    tools = parser.parse_args()
    tools.program = tools.program or str(pathlib.Path(tools.bench) / "bench_data_parallel")
    for option, known in (("models", list(GOALS)), ("ours", OURS), ("peers", PEERS)):
        for name in filter(None, getattr(tools, option).split(",")):
            if name not in known:
                parser.error(f"--{option}: '{name}' is none of {', '.join(known)}")
    if tools.rounds < 1:
        parser.error("--rounds must be positive")

    tools.threads = 2
    report = {"date": datetime.date.today().isoformat(), "rounds": tools.rounds, "models": {}}
    report["machine"] = run_pair.machine(tools)
    ours = [name for name in tools.ours.split(",") if name]
    peers = without_missing_packages(tools, [name for name in tools.peers.split(",") if name])
    failed = False
    if not shutil.which("mpirun") and ours != ["single"]:
        print("mpirun is missing: of ours, single alone is measured", file=sys.stderr)
        ours, failed = [name for name in ours if name == "single"], True
    if not ours and not peers:
        sys.exit("no side is left to measure")
    for model in tools.models.split(","):
        try:
            measured = measure(tools, model, ours, peers, tools.rounds)
        except SystemExit as error:
            failed = True
            print(f"{model}: {error}", file=sys.stderr)
            print(f"{model}: failed, not measured\n", flush=True)
            continue
        lines = goals_of(model, measured)
        report["models"][model] = measured | {"goals": lines}
        print_model(model, measured, lines)
        if tools.json:
            tools.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
