"""Programs that take turns of about a second on one machine. Each stays alive between its turns and waits for a line with
the seconds of the next one; it answers with a JSON object in a line (turns.h). A slow minute of the machine then falls on
all sides alike, and a ratio is that of neighbouring seconds.
"""

import json
import os
import shlex
import statistics
import subprocess


class Side:
    """A program that takes turns."""

    def __init__(self, command):
        self.command = command
        # Our threads stay on their processors. PyTorch's do so by themselves, one a processor; bound by OMP_PROC_BIND,
        # the thread of its autograd engine would begin on the processor of the main one.
        pinned = {"TESSERA_PIN_THREADS": "1"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | pinned
        )

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


def spread(values):
    """Median, quartiles, and both ends."""
    values = sorted(values)
    quartiles = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return {"median": quartiles[1], "quartiles": [quartiles[0], quartiles[2]], "lowest": values[0], "highest": values[-1]}


def has_moved(rates, name):
    """For each pair, whether a rate of the machine beside it is more than a tenth from its median over all pairs."""
    middle = statistics.median(r[name] for r in rates)
    return [abs(r[name] / middle - 1) > 0.1 for r in rates]


def measure(ours, peer, machine, pairs, seconds, report=lambda pair: None):
    """`pairs` times a turn of both sides, in alternating order, and before each the machine's own rates.

    Returns the turns, the rates, and for each pair whether the machine's rates had moved.
    """
    for side in (ours, peer, machine):
        side.turn(seconds)  # warm-up
    turns = []
    for i in range(pairs):
        pair = {"machine": machine.turn(0.5)}
        order = [("ours", ours), ("peer", peer)]
        for name, side in order if i % 2 == 0 else reversed(order):
            pair[name] = side.turn(seconds)
        turns.append(pair)
        report(pair)
    rates = [pair["machine"] for pair in turns]
    moved = [a or b for a, b in zip(has_moved(rates, "gflops"), has_moved(rates, "copy_rate"))]
    for pair, flag in zip(turns, moved):
        pair["machine_moved"] = flag
    return turns
