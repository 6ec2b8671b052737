#!/usr/bin/env python3
"""Memory of a training step against the block size: it grows in proportion, since no T x T array is kept.

    memory_growth.py                             # gpt-lite at 512, 1024, 2048 and 4096: real steps each
    memory_growth.py --plan-only                 # the plan alone: no step is computed

Prints for each block size the planned activations that a forward keeps for its backward, in all and per token; the peak
of the second step (the first that starts with optimizer state) as planned and as measured by the memory account; and the
process's resident peak. `growth` is the ratio of the kept activations to the row before: 2.00 for growth with the block
size, 4.00 for growth with its square.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import run_pair


def measure(options, block):
    command = [str(pathlib.Path(options.bench) / "bench_gptlite"), "--preset", options.preset, "--block-size", str(block)]
    command += ["--batch-size", "1", "--dtype", options.dtype, "--steps", "2", "--skip", "1"]
    command += ["--plan-only"] if options.plan_only else []
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"exit status {run.returncode} from: {' '.join(command)}")
    return json.loads(run.stdout.splitlines()[-1])


def gib(count):
    return f"{count / 2**30:.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default=run_pair.BENCH, help="the folder of bench_gptlite (default: that of build/release)")
    parser.add_argument("--preset", default="gpt-lite", help="(default: %(default)s)")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32", help="(default: %(default)s)")
    parser.add_argument("--blocks", type=int, nargs="+", default=[512, 1024, 2048, 4096], help="(default: %(default)s)")
    parser.add_argument("--plan-only", action="store_true", help="no real step")
    parser.add_argument("--json", help="write the figures to this file too")
    options = parser.parse_args()

    print("| block | kept, GiB | growth | KiB a token | peak planned | measured | resident |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    results = []
    for block in options.blocks:
        result = measure(options, block)
        kept = result["kept_by_forward"]
        growth = f"{kept / results[-1]['kept_by_forward']:.2f}" if results else ""
        real = [gib(result["memory_measured"]["total"]), gib(result["peak_rss_bytes"])] if not options.plan_only else ["", ""]
        cells = [block, gib(kept), growth, f"{kept / block / 1024:.1f}", gib(result["memory_planned"]["total"]), *real]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
        results.append(result)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
