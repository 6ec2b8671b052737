"""The goals of one process that are no GPT's tokens per second over PyTorch's: the wide network, time in kernels,
validation loss, recomputation. Each function measures one and returns {"name", "figures" (text), "goal" (text), "met", ...};
run_goals.py prints them after its table.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import run_data_parallel
import run_pair
import turns


def bench(tools, *options):
    return run_pair.run_measured(
        [str(pathlib.Path(tools.bench) / "bench_gptlite"), "--threads", str(tools.threads), "--seed", "1", *options]
    )


def wide_network(tools, _rounds):
    """The wide perceptron in one process: whole runs of some seconds in turn, since bench_data_parallel takes no turns."""
    options = argparse.Namespace(**vars(tools), no_tuning=True, program=str(pathlib.Path(tools.bench) / "bench_data_parallel"))
    measured = run_data_parallel.measure(options, "wide", ["single"], ["single"], tools.pairs)
    found = run_data_parallel.ratio_to(measured, "ours/single", ["peer/single"])
    rates = {name: measured["sides"][name]["rate"] for name in ("ours/single", "peer/single")}
    return {
        "name": "wide network (3 x 2048, 128 samples), training in one process",
        "figures": f"{rates['ours/single']:,.0f} samples/s, PyTorch {rates['peer/single']:,.0f}: ratio "
        f"{turns.with_quartiles(found['ratio'])}; {turns.moved_text(found)} pairs moved",
        "goal": "at least PyTorch's rate",
        "met": found["ratio"]["median"] >= 1,
        **found,
        "rounds": measured["rounds"],
    }


def time_in_kernels(tools, _rounds):
    """nano-cpu: the share of a step inside kernels, over 200 steps."""
    result = bench(tools, "--preset", "nano-cpu", "--steps", "50", "--skip", "5", "--profile-steps", "200")
    share = result["profile"]["in_kernels"]
    return {
        "name": "nano-cpu: time in kernels",
        "figures": f"{100 * share:.1f} % of the step",
        "goal": "at least 95 %",
        "met": share >= 0.95,
        "profile": result["profile"],
    }


def run_program(command):
    status = subprocess.run(command, env=os.environ | turns.OURS, check=False).returncode
    if status != 0:
        raise SystemExit(f"exit status {status} from: {' '.join(command)}")


def train_ours(tools, seed):
    """A whole run of gptlite: its loss over the whole validation text, and its seconds."""
    gptlite = pathlib.Path(tools.bench).parent / "gptlite"
    with tempfile.TemporaryDirectory() as folder:
        metrics = pathlib.Path(folder) / "metrics.jsonl"
        command = [str(gptlite), "train", "--preset", "nano-cpu", "--seed", str(seed), "--threads", str(tools.threads)]
        command += ["--eval-interval", "2000", "--checkpoint-interval", "0", "--quiet"]
        command += ["--out", str(pathlib.Path(folder) / "out"), "--metrics", str(metrics)]
        began = time.monotonic()
        run_program(command)
        seconds = time.monotonic() - began
        return json.loads(metrics.read_text(encoding="utf-8").splitlines()[-1])["val_loss"], seconds


def validation_loss(tools, _rounds):
    """nano-cpu, 2,000 steps, three seeds: the loss over the whole validation text, ours and PyTorch's."""
    ours, seconds, peer = [], [], []
    for seed in (1, 2, 3):
        loss, elapsed = train_ours(tools, seed)
        ours.append(loss), seconds.append(elapsed)
        command = [tools.python, str(run_pair.HERE / "peer_pytorch.py"), "--preset", "nano-cpu", "--seed", str(seed)]
        peer.append(run_pair.run_measured([*command, "--threads", str(tools.threads)], turns.PEER)["val_loss"])
        print(f"nano-cpu, seed {seed}: {ours[-1]:.5f} in {elapsed:.0f} s, PyTorch {peer[-1]:.5f}", file=sys.stderr)
    mean, other = statistics.mean(ours), statistics.mean(peer)
    return {
        "name": "nano-cpu: validation loss after 2,000 steps, mean of three seeds",
        "figures": f"{mean:.5f}, PyTorch {other:.5f}; at most {max(seconds):.0f} s",
        "goal": "not above PyTorch's, in at most 60 s",
        "met": mean <= other and max(seconds) <= 60,
        "ours": ours,
        "pytorch": peer,
        "seconds": seconds,
    }


def recomputation(tools, rounds):
    """gpt-lite with a checkpoint at every block, keeping attention's output; and the same with the whole block run again."""
    variants = {
        "all kept": [],
        "attention kept": ["--activation-checkpoint-interval", "1", "--activation-checkpoint-keep", "attention"],
        "nothing kept": ["--activation-checkpoint-interval", "1", "--activation-checkpoint-keep", "none"],
    }
    runs = {name: [] for name in variants}
    for _ in range(rounds):
        for name, options in variants.items():
            runs[name].append(bench(tools, "--preset", "gpt-lite", "--steps", "4", "--skip", "1", *options))
    base = runs["all kept"]

    def compared(name):
        slower = [r["median_step_ms"] / b["median_step_ms"] for r, b in zip(runs[name], base)]
        return runs[name][0]["kept_by_forward"] / base[0]["kept_by_forward"], statistics.median(slower) - 1

    (kept, slower), (kept_whole, slower_whole) = compared("attention kept"), compared("nothing kept")
    return {
        "name": "gpt-lite with a checkpoint at every block",
        "figures": f"{kept:.3f} of the activation bytes, {100 * slower:+.0f} %; "
        f"whole blocks rerun: {kept_whole:.3f}, {100 * slower_whole:+.0f} %",
        "goal": "at most a quarter, at most +15 %",
        "met": kept <= 0.25 and slower <= 0.15,
        "runs": runs,
    }


GOALS = {
    "wide/fp32": wide_network,
    "nano-cpu/kernels": time_in_kernels,
    "nano-cpu/loss": validation_loss,
    "gpt-lite/checkpoint": recomputation,
}
