#!/usr/bin/env python3
"""Measures generating text, ours and PyTorch's, in short turns (A B A B), and prints both and the ratio of each pair.

    run_generate.py --presets width-768,gpt2 --dtypes fp32,bf16 --batches 1,8 --turns 15

Both processes live through all turns of a case and wait while the other has one. A turn decodes some ids after a prompt.
Printed are the medians of tokens per second, the median and the quartiles of the ratios of the pairs, and the rate at
which ours reads the weights beside the rate at which the same memory can be read, measured within each of our turns. A
step reads all weights at least once, so that rate is the limit at batch 1.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

from run_pair import machine

HERE = pathlib.Path(__file__).resolve().parent


class Side:
    """A process that takes a turn for each line it is sent."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def turn(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"exit status {self.process.wait()} from: {self.process.args}")
        return json.loads(line)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def quartiles(values):
    if len(values) < 2:
        return [values[0]] * 3
    return statistics.quantiles(values, n=4, method="inclusive")


def measure(preset, dtype, batch, options):
    common = [f"--preset={preset}", f"--dtype={dtype}", f"--batch={batch}"]
    common += [f"--{name}={getattr(options, name)}" for name in ("prompt", "tokens", "temperature", "threads")]
    ours = Side([str(pathlib.Path(options.bench) / "bench_generate"), *common, *options.ours])
    peer = Side([options.python, str(HERE / "peer_generate.py"), *common])
    pairs = [(ours.turn(), peer.turn()) for _ in range(options.turns)]
    ours.end()
    peer.end()
    ratios = quartiles([a["tokens_per_second"] / b["tokens_per_second"] for a, b in pairs])
    shares = quartiles([a["share_of_read_rate"] for a, _ in pairs])
    result = {
        "preset": preset,
        "dtype": dtype,
        "batch": batch,
        "ours": statistics.median(a["tokens_per_second"] for a, _ in pairs),
        "pytorch": statistics.median(b["tokens_per_second"] for _, b in pairs),
        "ratio": ratios,
        "read_gb_per_second": statistics.median(a["read_gb_per_second"] for a, _ in pairs),
        "weights_gb_per_second": statistics.median(a["weights_gb_per_second"] for a, _ in pairs),
        "share_of_read_rate": shares,
        "prompt": {side: x["prompt_tokens_per_second"] for side, x in zip(("ours", "pytorch"), pairs[0])},
    }
    print(
        f"{preset:>9} {dtype} batch {batch:2}: {result['ours']:7.1f} and {result['pytorch']:7.1f} tokens/s, ratio "
        f"{ratios[1]:.2f} ({ratios[0]:.2f} to {ratios[2]:.2f}); weights at {result['weights_gb_per_second']:.1f} GB/s, "
        f"reading at {result['read_gb_per_second']:.1f}: {100 * shares[1]:.0f} % ({100 * shares[0]:.0f} to "
        f"{100 * shares[2]:.0f})",
        flush=True,
    )
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build/release/bin/bench", help="folder of bench_generate (%(default)s)")
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch (default: this one)")
    parser.add_argument("--presets", default="width-768,gpt2", help="(default: %(default)s)")
    parser.add_argument("--dtypes", default="fp32,bf16", help="(default: %(default)s)")
    parser.add_argument("--batches", default="1,8", help="(default: %(default)s)")
    parser.add_argument("--prompt", type=int, default=32, help="ids of each row's prompt (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=8, help="ids of a turn (default: %(default)s)")
    parser.add_argument("--temperature", type=float, default=0.8, help="(default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--turns", type=int, default=15, help="pairs of each case (default: %(default)s)")
    parser.add_argument("--ours", nargs="*", default=[], help="more options of bench_generate")
    parser.add_argument("--json", help="write the results to this file too")
    options = parser.parse_args()

    result = machine(options)
    result["cases"] = [
        measure(preset, dtype, int(batch), options)
        for preset in options.presets.split(",")
        for dtype in options.dtypes.split(",")
        for batch in options.batches.split(",")
    ]
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
