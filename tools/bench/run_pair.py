#!/usr/bin/env python3
"""Measures ours and PyTorch in turns of a second on this machine, and prints both and their ratio.

    run_pair.py --preset nano-cpu
    run_pair.py --preset gpt-lite --dtype bf16 --pairs 5 --json gpt-lite.json

A machine's speed drifts: only neighbouring turns can be compared. Both sides stay alive with the same preset, batch,
learning rates and threads, and step in turn for about a second (at least one step), the first turn left out. Before each
pair the machine's own rates are measured: those of our matrix products over the linear layers of a block, and of a copy.
The ratio is that of each pair: median, quartiles, both ends. Pairs beside which a rate of the machine was more than a tenth
from its median are counted as moved. Peak RSS is the kernel's figure for the whole process.
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

import turns as turn_taking

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


def summary(turns, last, name):
    """One side's figures over all turns; `last`: its last line."""
    rates = [turn[name]["tokens_per_second"] for turn in turns]
    middle = statistics.median(rates)
    return {
        "tokens_per_second": middle,
        "gflops": middle * last["gflops"] / last["tokens_per_second"],
        "peak_rss_bytes": last["peak_rss_bytes"],
        "loss": last["loss"],
        "steps": last["steps"],
        "turns": rates,
    }


def measure(preset, dtype, pairs, seconds, tools, ours_more=(), peer_more=()):
    """Turns of ours, PyTorch and the machine's rates; `tools`: bench (folder), python, threads."""
    common = ["--preset", preset, "--dtype", dtype, "--threads", str(tools.threads), "--turns"]
    bench = pathlib.Path(tools.bench)
    many = ["--steps", "1000000", "--skip", "0", "--seed", "1"]
    ours = turn_taking.Side([str(bench / "bench_gptlite"), *common, *many, *ours_more])
    peer = turn_taking.Side([tools.python, str(HERE / "peer_pytorch.py"), *common, *many, *peer_more])
    rates = turn_taking.Side([str(bench / "bench_products"), *common])

    def report(pair):
        print(
            f"{preset} {dtype}: ours {pair['ours']['tokens_per_second']:,.0f} tokens/s, "
            f"PyTorch {pair['peer']['tokens_per_second']:,.0f}, "
            f"ratio {pair['ours']['tokens_per_second'] / pair['peer']['tokens_per_second']:.2f}; products "
            f"{pair['machine']['gflops']:.0f} GFLOP/s, copy {pair['machine']['copy_rate'] / 1e9:.1f} GB/s",
            file=sys.stderr,
        )

    turns = turn_taking.measure(ours, peer, rates, pairs, seconds, report)
    last, last_peer = ours.finish(), peer.finish()
    rates.finish()
    of_step = last["gflops"] / last["tokens_per_second"]
    still = [turn for turn in turns if not turn["machine_moved"]]
    return {
        "preset": preset,
        "dtype": dtype,
        "pairs": pairs,
        "moved": pairs - len(still),
        "batch_size": last["batch_size"],
        "block_size": last["block_size"],
        "ours": summary(turns, last, "ours"),
        "memory_planned": last["memory_planned"]["total"],
        "memory_measured": last["memory_measured"]["total"],
        "pytorch": summary(turns, last_peer, "peer"),
        "ratio": ratios(turns),
        "ratio_of_still_pairs": ratios(still) if still else None,
        "memory_ratio": last["peak_rss_bytes"] / last_peer["peak_rss_bytes"],
        "products_gflops": statistics.median(turn["machine"]["gflops"] for turn in turns),
        "copy_rate": statistics.median(turn["machine"]["copy_rate"] for turn in turns),
        "share_of_products": turn_taking.spread(
            [turn["ours"]["tokens_per_second"] * of_step / turn["machine"]["gflops"] for turn in turns]
        ),
        "turns": turns,
    }


spread = turn_taking.spread


def ratios(turns):
    return turn_taking.spread([turn["ours"]["tokens_per_second"] / turn["peer"]["tokens_per_second"] for turn in turns])


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
        "--bench",
        default=str(HERE.parent.parent / "build/release/bin/bench"),
        help="the folder of bench_gptlite and bench_products (%(default)s)",
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
    print(
        f"   ratio: {r['median']:.2f} (quartiles {r['quartiles'][0]:.2f}, {r['quartiles'][1]:.2f}; {r['lowest']:.2f} to "
        f"{r['highest']:.2f}) of {result['pairs']} pairs, beside {result['moved']} of which the machine's rates moved; "
        f"memory {result['memory_ratio']:.2f}"
    )
    print(
        f"products: {100 * f['median']:.0f} % ({100 * f['lowest']:.0f} to {100 * f['highest']:.0f}) of our products' "
        f"{result['products_gflops']:.0f} GFLOP/s; copy {result['copy_rate'] / 1e9:.1f} GB/s"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_tools(parser)
    parser.add_argument("--preset", default="nano-cpu", help="(default: %(default)s)")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32", help="(default: %(default)s)")
    parser.add_argument("--pairs", type=int, default=15, help="(default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=1, help="of a turn (default: %(default)s)")
    parser.add_argument("--ours", type=shlex.split, default=[], metavar="OPTIONS", help="more options: --ours='--data F'")
    parser.add_argument("--peer", type=shlex.split, default=[], metavar="OPTIONS", help="more options for the peer")
    parser.add_argument("--json", help="write the result to this file too")
    options = parser.parse_args()
    if options.pairs < 1 or options.seconds <= 0:
        parser.error("--pairs and --seconds must be positive")

    result = machine(options)
    result |= measure(
        options.preset, options.dtype, options.pairs, options.seconds, options, options.ours, options.peer
    )
    print_pair(result)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
