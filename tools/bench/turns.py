"""Programs that take turns of about a second on one machine. Each stays alive between its turns and waits for a line with
the seconds of the next one; it answers with a JSON object in a line (turns.h). A slow minute of the machine then falls on
all sides alike, and a ratio is that of neighbouring seconds.

The machine's own rates (bench_products: matrix products and a copy) are measured before and after each pair of turns. A
pair has moved where one of them differs by more than a tenth between the two. The rates after a pair are those before the
next one.
"""

import contextlib
import json
import os
import shlex
import statistics
import subprocess

# The rates of bench_products that are watched.
RATES = ("gflops", "copy_rate")

# Worker threads of ours stay on a processor each. PyTorch's threads may run on every processor of the process, whatever
# their number; PEER binds those of OpenMP to a processor each. It must not be set for ours: the main thread, and each
# thread that it starts, would share one processor.
OURS = {"TESSERA_PIN_THREADS": "1"}
PEER = {"OMP_PROC_BIND": "true"}


class Side:
    """A program that takes turns. As a context manager it ends the program, whatever happens."""

    def __init__(self, command, environment=OURS):
        self.command = command
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | environment
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.returncode is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        with contextlib.suppress(BrokenPipeError):  # of a line that the program did not read
            self.process.stdin.close()

    def _fail(self):
        raise SystemExit(f"exit status {self.process.wait()} from: {shlex.join(self.command)}")

    def turn(self, seconds):
        """Lets it run for about `seconds`, at least one step."""
        try:
            self.process.stdin.write(f"{seconds}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self._fail()
        line = self.process.stdout.readline()
        if not line:
            self._fail()
        return json.loads(line)

    def finish(self):
        """Ends it; returns its last line, empty where there is none, with its peak RSS."""
        self.process.stdin.close()
        lines = self.process.stdout.read().splitlines()
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if self.process.returncode != 0:
            self._fail()
        last = json.loads(lines[-1]) if lines else {}
        return last | {"peak_rss_bytes": usage.ru_maxrss * 1024}


class Machine(Side):
    """The machine's own rates: those of our matrix products over the linear layers of a preset's block, and of a copy."""

    def __init__(self, bench, preset, dtype, threads):
        program = os.path.join(bench, "bench_products")
        super().__init__([program, "--preset", preset, "--dtype", dtype, "--threads", str(threads), "--turns"])
        self.turn(0.5)  # warm-up

    def rates(self):
        return self.turn(0.5)


def spread(values):
    """Median, quartiles, and both ends."""
    values = sorted(values)
    quartiles = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return {"median": quartiles[1], "quartiles": [quartiles[0], quartiles[2]], "lowest": values[0], "highest": values[-1]}


def with_quartiles(found, digits=2):
    """A spread as text: median (quartiles)."""
    low, high = found["quartiles"]
    return f"{found['median']:.{digits}f} ({low:.{digits}f}, {high:.{digits}f})"


def beside(measured):
    """What the machine did beside a pair, from its rates before and after it: mean rates, each rate's change as a factor,
    and whether one moved by more than a tenth."""
    values = {name: [rates[name] for rates in measured] for name in RATES}
    return {
        "machine": {name: statistics.mean(values[name]) for name in RATES},
        "machine_before": {name: values[name][0] for name in RATES},
        "machine_after": {name: values[name][-1] for name in RATES},
        "machine_moved": any(max(v) > 1.1 * min(v) for v in values.values()),
    }


def beside_text(pair):
    """The machine's rates beside a pair, for its line."""
    before, after = pair["machine_before"], pair["machine_after"]
    return (
        f"products {before['gflops']:.0f} to {after['gflops']:.0f} GFLOP/s, "
        f"copy {before['copy_rate'] / 1e9:.1f} to {after['copy_rate'] / 1e9:.1f} GB/s"
        + ("; MOVED" if pair["machine_moved"] else "")
    )


def measure(sides, machine, rounds, report=lambda turn: None):
    """`rounds` times a turn of each side, in an order that rotates, with the machine's rates before and after.

    `sides`: by name, functions without arguments that return a turn's figures. Returns for each round these by name, and
    what `beside` says.
    """
    names, turns = list(sides), []
    after = machine.rates()
    for i in range(rounds):
        first, before, turn = i % len(names), after, {}
        for name in names[first:] + names[:first]:
            turn[name] = sides[name]()
        after = machine.rates()
        turn |= beside([before, after])
        turns.append(turn)
        report(turn)
    return turns


def ratios(turns, ratio):
    """The spread of a ratio over all turns; the number of moved ones; the spread over the others where they are three or
    more. `ratio`: a function of a turn."""
    still = [ratio(turn) for turn in turns if not turn["machine_moved"]]
    return {
        "pairs": len(turns),
        "moved": len(turns) - len(still),
        "ratio": spread([ratio(turn) for turn in turns]),
        "ratio_of_still_pairs": spread(still) if len(still) >= 3 else None,
    }


def moved_text(found):
    """The count of `ratios` for a table's cell, with the median of the other pairs where there is one."""
    still = found["ratio_of_still_pairs"]
    return f"{found['moved']} of {found['pairs']}" + (f" (others {still['median']:.2f})" if still else "")


def machine_text(turns):
    """The machine's median rates over all turns."""
    products, copies = (statistics.median(turn["machine"][name] for turn in turns) for name in RATES)
    return f"products {products:.0f} GFLOP/s, copy {copies / 1e9:.1f} GB/s"
