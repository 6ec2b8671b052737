#!/usr/bin/env python3
"""Measures ours and PyTorch in turn, A B A B, on this machine, and prints both and their ratio.

    run_pair.py --gptlite build/release/bin/gptlite --preset nano-cpu
    run_pair.py --gptlite build/release/bin/gptlite --preset nano --steps 12 --rounds 2 --json nano.json

A machine's speed drifts: only runs that alternate can be compared. Each round is one process of each side with the same
preset, batch and threads, without evaluation. Rates are those of whole steps, the first `--skip` left out; peak RSS is the
kernel's figure for the whole process. The ratio is given per round, and its median with the lowest and the highest.
Run it on an idle machine.
"""

import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def run_measured(command, environment):
    """Runs to the end and answers with (standard output, peak RSS in bytes); stops the whole run on a failure."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"exit status {process.returncode} from: {' '.join(command)}")
        output.seek(0)
        return output.read(), usage.ru_maxrss * 1024


def measure_ours(options, environment):
    with tempfile.TemporaryDirectory() as folder:
        metrics = pathlib.Path(folder) / "metrics.jsonl"
        command = [
            options.gptlite,
            "train",
            "--preset",
            options.preset,
            "--steps",
            str(options.steps),
            "--seed",
            "1",
            "--dtype",
            options.dtype,
            "--threads",
            str(options.threads),
            "--eval-interval",
            "0",
            "--checkpoint-interval",
            "0",
            "--quiet",
            "--out",
            str(pathlib.Path(folder) / "out"),
            "--metrics",
            str(metrics),
        ] + options.ours
        _, rss = run_measured(command, environment)
        lines = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    steps = [line for line in lines if line.get("step_ms") is not None and "event" not in line]
    if len(steps) < options.steps:
        raise SystemExit(f"ours wrote {len(steps)} of {options.steps} steps into its metrics")
    timed = [line["step_ms"] / 1e3 for line in steps[options.skip :]]
    return sum(timed) / len(timed), rss, steps[-1]["loss"]


def measure_peer(options, environment):
    command = [
        options.python,
        str(HERE / "peer_pytorch.py"),
        "--preset",
        options.preset,
        "--steps",
        str(options.steps),
        "--skip",
        str(options.skip),
        "--dtype",
        options.dtype,
        "--threads",
        str(options.threads),
        "--no-eval",
    ]
    output, rss = run_measured(command + options.peer, environment)
    result = json.loads(output.splitlines()[-1])
    tokens = result["batch_size"] * result["block_size"]
    return tokens / result["tokens_per_second"], rss, result


def summary(tokens, flops_per_token, seconds, rss):
    rates = [tokens / s for s in seconds]
    return {
        "tokens_per_second": statistics.median(rates),
        "rounds": rates,
        "peak_rss_bytes": max(rss),
        "gflops": statistics.median(rates) * flops_per_token / 1e9,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gptlite", required=True, help="our binary")
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch (default: this one)")
    parser.add_argument("--preset", default="nano-cpu", help="(default: %(default)s)")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32", help="(default: %(default)s)")
    parser.add_argument("--steps", type=int, default=200, help="of each run (default: %(default)s)")
    parser.add_argument("--skip", type=int, default=5, help="first steps left out (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="(default: all, %(default)s)")
    parser.add_argument("--ours", type=shlex.split, default=[], metavar="OPTIONS", help="more options: --ours='--data F'")
    parser.add_argument("--peer", type=shlex.split, default=[], metavar="OPTIONS", help="more options for the peer")
    parser.add_argument("--json", help="write the result to this file too")
    options = parser.parse_args()
    if options.skip >= options.steps:
        parser.error("--skip must be below --steps")

    environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
    ours, peer = ([], []), ([], [])
    for turn in range(options.rounds):
        seconds, rss, loss = measure_ours(options, environment)
        ours[0].append(seconds), ours[1].append(rss)
        seconds, rss, told = measure_peer(options, environment)
        peer[0].append(seconds), peer[1].append(rss)
        print(
            f"round {turn + 1}: ours {ours[0][-1] * 1e3:.2f} ms a step (loss {loss:.4f}), "
            f"PyTorch {seconds * 1e3:.2f} (loss {told['loss']:.4f}), ratio {seconds / ours[0][-1]:.2f}",
            file=sys.stderr,
        )

    tokens = told["batch_size"] * told["block_size"]
    flops_per_token = told["gflops"] * 1e9 / told["tokens_per_second"]
    ratios = [p / o for o, p in zip(ours[0], peer[0])]
    result = {
        "program": "run_pair",
        "preset": options.preset,
        "dtype": options.dtype,
        "threads": options.threads,
        "steps": options.steps,
        "torch": told["torch"],
        "load_average": os.getloadavg(),
        "ours": summary(tokens, flops_per_token, *ours),
        "pytorch": summary(tokens, flops_per_token, *peer),
        "ratio": {"median": statistics.median(ratios), "lowest": min(ratios), "highest": max(ratios)},
    }
    for side in ("ours", "pytorch"):
        s = result[side]
        print(
            f"{side:>8}: {s['tokens_per_second']:10,.0f} tokens/s  {s['gflops']:7.1f} GFLOP/s  "
            f"{s['peak_rss_bytes'] / 2**30:5.2f} GiB"
        )
    r = result["ratio"]
    print(f"   ratio: {r['median']:.2f} ({r['lowest']:.2f} to {r['highest']:.2f} over {options.rounds} rounds)")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
