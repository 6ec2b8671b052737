#!/usr/bin/env python3
"""Measures ours and PyTorch in turns of a second on this machine, and prints both and their ratio.

    run_pair.py --preset nano-cpu
    run_pair.py --preset gpt-lite --dtype bf16 --pairs 5 --json gpt-lite.json

A machine's speed drifts: only neighbouring turns can be compared. Both sides stay alive with the same preset, batch,
learning rates and threads, and step in turn for about a second (at least one step), the first turn left out. The threads
of both are bound to a processor each. Before and after each pair the machine's own rates are measured: those of our matrix
products over the linear layers of a block, and of a copy. The ratio is that of each pair: median, quartiles, both ends.
Pairs during which a rate of the machine changed by more than a tenth are marked and counted as moved; the other pairs have
a ratio of their own where they are three or more. Peak RSS is the kernel's figure for the whole process.
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
BENCH = str(HERE.parent.parent / "build/release/bin/bench")


def run_measured(command, environment=turn_taking.OURS):
    """Runs a command; returns its last line as JSON, with its peak RSS. Exits where the command fails."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, env=os.environ | environment)
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
    common += ["--steps", "1000000", "--skip", "0", "--seed", "1"]
    our_command = [str(pathlib.Path(tools.bench) / "bench_gptlite"), *common, *ours_more]
    peer_command = [tools.python, str(HERE / "peer_pytorch.py"), *common, *peer_more]

    def report(pair):
        print(
            f"{preset} {dtype}: ours {pair['ours']['tokens_per_second']:,.0f} tokens/s, "
            f"PyTorch {pair['peer']['tokens_per_second']:,.0f}, ratio {ratio_of(pair):.2f}; "
            f"{turn_taking.beside_text(pair)}",
            file=sys.stderr,
        )

    with (
        turn_taking.Side(our_command) as ours,
        turn_taking.Side(peer_command, turn_taking.PEER) as peer,
        turn_taking.Machine(tools.bench, preset, dtype, tools.threads) as machine_rates,
    ):
        ours.turn(seconds), peer.turn(seconds)  # warm-up
        sides = {"ours": lambda: ours.turn(seconds), "peer": lambda: peer.turn(seconds)}
        turns = turn_taking.measure(sides, machine_rates, pairs, report)
        last, last_peer = ours.finish(), peer.finish()
    of_step = last["gflops"] / last["tokens_per_second"]
    return {
        "preset": preset,
        "dtype": dtype,
        "batch_size": last["batch_size"],
        "block_size": last["block_size"],
        "ours": summary(turns, last, "ours"),
        "memory_planned": last["memory_planned"]["total"],
        "memory_measured": last["memory_measured"]["total"],
        "pytorch": summary(turns, last_peer, "peer"),
        **turn_taking.ratios(turns, ratio_of),
        "memory_ratio": last["peak_rss_bytes"] / last_peer["peak_rss_bytes"],
        "products_gflops": statistics.median(turn["machine"]["gflops"] for turn in turns),
        "copy_rate": statistics.median(turn["machine"]["copy_rate"] for turn in turns),
        "share_of_products": turn_taking.spread(
            [turn["ours"]["tokens_per_second"] * of_step / turn["machine"]["gflops"] for turn in turns]
        ),
        "turns": turns,
    }


def measure_runs(label, sides, tools, dtype, rounds, rate):
    """Whole processes in turn, for programs that take no turns: as turns.measure, each line named `label`.

    `sides`: by name, commands with their environments; `rate`: the name of the figure that a side's last line has.
    """

    def report(turn):
        figures = ", ".join(
            f"{name} {turn[name][rate]:,.1f} ({turn[name]['peak_rss_bytes'] / 2**30:.2f} GiB)" for name in sides
        )
        print(f"{label}: {figures} {rate.replace('_per_second', '/s')}; {turn_taking.beside_text(turn)}", file=sys.stderr)

    runs = {name: lambda side=side: run_measured(*side) for name, side in sides.items()}
    with turn_taking.Machine(tools.bench, "width-768", dtype, tools.threads) as machine_rates:
        return turn_taking.measure(runs, machine_rates, rounds, report)


def ratio_of(turn):
    return turn["ours"]["tokens_per_second"] / turn["peer"]["tokens_per_second"]


INSTRUCTION_SETS = {"avx2": "AVX2", "avx512f": "AVX-512", "avx512_bf16": "BF16", "amx_bf16": "AMX"}


def processor():
    """The processor's name, with family, model and the instruction sets that decide rates: some names say little."""
    found = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    flags = found.get("flags", "").split()
    sets = [text for flag, text in INSTRUCTION_SETS.items() if flag in flags]
    if "AVX-512" in sets:
        sets.remove("AVX2")
    where = f"family {found.get('cpu family', '?')}, model {found.get('model', '?')}"
    return f"{found.get('model name', 'unknown processor')} ({', '.join([where, *sets])})"


def torch_version(tools):
    """PyTorch's version, empty where there is none."""
    command = [tools.python, "-c", "import torch; print(torch.__version__)"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def machine(tools):
    """The processor, its load, the number of threads and PyTorch's version."""
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"the machine is not idle (load average {load:.2f}): figures will be those of a busy one", file=sys.stderr)
    return {
        "processor": processor(),
        "threads": tools.threads,
        "torch": torch_version(tools),
        "load_average": os.getloadavg(),
    }


def add_tools(parser):
    parser.add_argument(
        "--bench",
        default=BENCH,
        help="the folder of our programs (default: that of build/release)",
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
    r, f, still = result["ratio"], result["share_of_products"], result["ratio_of_still_pairs"]
    others = f" (median of the others {still['median']:.2f})" if still else ""
    print(
        f"   ratio: {r['median']:.2f} (quartiles {r['quartiles'][0]:.2f}, {r['quartiles'][1]:.2f}; {r['lowest']:.2f} to "
        f"{r['highest']:.2f}) of {result['pairs']} pairs, during {result['moved']} of which the machine's rates moved{others}; "
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
