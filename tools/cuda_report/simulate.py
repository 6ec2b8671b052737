"""The cases of bench_device on the simulated card: what each must move, and what each kernel did."""

import collections
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

COUNTS = ("flops_f32", "flops_f64", "flops_mma")


class Row(NamedTuple):
    """One kernel of a case."""
    kernel: str
    counts: dict


class Case(NamedTuple):
    name: str
    size: str
    least_bytes: int
    product_flops: int  # outside kernels
    rows: list

    def total(self):
        return {name: sum(row.counts[name] for row in self.rows) for name in COUNTS}


def ratio(value, by):
    return f"{value / by:.2f}" if by else "-"


def run(program, arguments, environment):
    done = subprocess.run([str(program), *arguments], env={**os.environ, **environment}, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"cuda_report: {program} {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def cases(build, only):
    """The cases of which the name contains `only`."""
    program = build / "bin" / "bench" / "bench_device"
    if not program.exists():
        raise SystemExit(f"cuda_report: no {program}: build it with the cuda preset first")
    names = run(program, ["--list"], {}).splitlines()
    if not any(only in name for name in names):
        raise SystemExit(f"cuda_report: no case has '{only}' in its name: {', '.join(names)}")
    for name in names:
        if only not in name:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            counts = Path(scratch) / "counts.jsonl"
            text = run(program, ["--device", "cuda:sim", "--case", name], {
                "TESSERA_CUDA_SIM_COUNTERS": str(counts),
                "TESSERA_CUDA_SIM_CHECKS": "none",
                "TESSERA_CUDA_SIM_LIBRARY": str(build / "cuda_sim"),
            })
            kernels = [json.loads(line) for line in counts.read_text().splitlines()] if counts.exists() else []
        case = json.loads(text)
        rows = [Row(entry["kernel"], entry) for entry in kernels]
        least = sum(op["bytes"] for op in case["ops"])
        # Products are cuBLASLt's, which the card does not count; attention's are those of its kernels.
        product_flops = sum(op["flops"] for op in case["ops"] if "attention" not in op["name"])
        if product_flops == 0:  # a kernel that gathers asks for less than its operands
            least = min(least, sum(row.counts["load_bytes"] + row.counts["store_bytes"] for row in rows))
        yield Case(name, case["size"], least, product_flops, rows)


def by_template(rows, template_of):
    """Counts of kernels with one template, added up."""
    groups = collections.defaultdict(lambda: collections.Counter())
    for row in rows:
        groups[template_of(row.kernel)].update({k: v for k, v in row.counts.items() if isinstance(v, int)})
    return groups
