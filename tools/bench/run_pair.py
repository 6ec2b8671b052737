#!/usr/bin/env python3
"""Measures ours and PyTorch in turn (A B A B) on this machine, and prints both and their ratio.

    run_pair.py --preset nano-cpu
    run_pair.py --preset nano --dtype bf16 --steps 4 --skip 1 --rounds 2 --json nano.json

A machine's speed drifts: only runs that alternate can be compared. Each round is one process of each side with the same
preset, batch, learning rates, threads and number of steps, without evaluation; then the rate of our matrix products over
the linear layers of a block, a bound of a step's rate. Rates are those of whole steps, the first `--skip` left out; peak
RSS is the kernel's figure for the whole process. The ratio is given per round, and its median with the lowest and the
highest.
Run it on an idle machine. run_goals.py runs every row of the project's goals.
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


def run_measured(command):
    """Runs a command; returns its last line as JSON, with its peak RSS. Exits where the command fails."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"exit status {process.returncode} from: {shlex.join(command)}")
        output.seek(0)
        result = json.loads(output.read().splitlines()[-1])
    result["peak_rss_bytes"] = usage.ru_maxrss * 1024
    return result


def summary(rounds):
    """One side's figures over all rounds."""
    return {
        "tokens_per_second": statistics.median(r["tokens_per_second"] for r in rounds),
        "gflops": statistics.median(r["gflops"] for r in rounds),
        "peak_rss_bytes": max(r["peak_rss_bytes"] for r in rounds),
        "loss": rounds[-1]["loss"],
        "rounds": [r["tokens_per_second"] for r in rounds],
    }


def spread(ratios):
    return {"median": statistics.median(ratios), "lowest": min(ratios), "highest": max(ratios)}


def measure(preset, dtype, steps, skip, rounds, tools, ours_more=(), peer_more=()):
    """Interleaved rounds of ours, PyTorch and our matrix products; `tools`: bench (folder), python, threads."""
    common = ["--preset", preset, "--dtype", dtype, "--threads", str(tools.threads)]
    timing = ["--steps", str(steps), "--skip", str(skip), "--seed", "1"]
    bench = pathlib.Path(tools.bench)
    peer_script = str(HERE / "peer_pytorch.py")
    ours, peer, products = [], [], []
    for turn in range(rounds):
        ours.append(run_measured([str(bench / "bench_gptlite"), *common, *timing, *ours_more]))
        peer.append(run_measured([tools.python, peer_script, *common, *timing, "--no-eval", *peer_more]))
        products.append(run_measured([str(bench / "bench_products"), *common])["gflops"])
        print(
            f"{preset} {dtype}, round {turn + 1}: ours {ours[-1]['median_step_ms']:.2f} ms a step "
            f"(loss {ours[-1]['loss']:.4f}), PyTorch {peer[-1]['median_step_ms']:.2f} (loss {peer[-1]['loss']:.4f}), "
            f"ratio {ours[-1]['tokens_per_second'] / peer[-1]['tokens_per_second']:.2f}; products {products[-1]:.0f} GFLOP/s",
            file=sys.stderr,
        )
    return {
        "preset": preset,
        "dtype": dtype,
        "steps": steps,
        "batch_size": ours[-1]["batch_size"],
        "block_size": ours[-1]["block_size"],
        "ours": summary(ours),
        "memory_planned": ours[-1]["memory_planned"]["total"],
        "memory_measured": ours[-1]["memory_measured"]["total"],
        "pytorch": summary(peer),
        "ratio": spread([o["tokens_per_second"] / p["tokens_per_second"] for o, p in zip(ours, peer)]),
        "memory_ratio": max(o["peak_rss_bytes"] for o in ours) / max(p["peak_rss_bytes"] for p in peer),
        "products_gflops": statistics.median(products),
        "share_of_products": spread([o["gflops"] / p for o, p in zip(ours, products)]),
    }


def machine(tools):
    """The processor, its load, the number of threads and PyTorch's version."""
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"the machine is not idle (load average {load:.2f}): figures will be those of a busy one", file=sys.stderr)
    model = ""
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    torch = subprocess.run([tools.python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    return {
        "processor": model,
        "threads": tools.threads,
        "torch": torch.stdout.strip(),
        "load_average": os.getloadavg(),
    }


def add_tools(parser):
    parser.add_argument(
        "--bench", default="build/release/bin/bench", help="the folder of bench_gptlite and bench_products (%(default)s)"
    )
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch (default: this one)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="(default: all, %(default)s)")


def print_pair(result):
    for side in ("ours", "pytorch"):
        s = result[side]
        print(
            f"{side:>8}: {s['tokens_per_second']:10,.0f} tokens/s  {s['gflops']:7.1f} GFLOP/s  "
            f"{s['peak_rss_bytes'] / 2**30:5.2f} GiB  loss {s['loss']:.4f}"
        )
    r, f = result["ratio"], result["share_of_products"]
    print(f"   ratio: {r['median']:.2f} ({r['lowest']:.2f} to {r['highest']:.2f}); memory {result['memory_ratio']:.2f}")
    print(
        f"products: {100 * f['median']:.0f} % ({100 * f['lowest']:.0f} to {100 * f['highest']:.0f}) of our products' "
        f"{result['products_gflops']:.0f} GFLOP/s"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_tools(parser)
    parser.add_argument("--preset", default="nano-cpu", help="(default: %(default)s)")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32", help="(default: %(default)s)")
    parser.add_argument("--steps", type=int, default=200, help="of each run (default: %(default)s)")
    parser.add_argument("--skip", type=int, default=5, help="first steps left out (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--ours", type=shlex.split, default=[], metavar="OPTIONS", help="more options: --ours='--data F'")
    parser.add_argument("--peer", type=shlex.split, default=[], metavar="OPTIONS", help="more options for the peer")
    parser.add_argument("--json", help="write the result to this file too")
    options = parser.parse_args()
    if options.skip >= options.steps:
        parser.error("--skip must be below --steps")

    result = machine(options)
    result |= measure(
        options.preset, options.dtype, options.steps, options.skip, options.rounds, options, options.ours, options.peer
    )
    print_pair(result)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
