#!/usr/bin/env python3
"""Makes tests/optim/goldens/*.safetensors: results of PyTorch's optimizers, schedules and clipping, and of
DeepSpeed's schedules, in f64.

The files are committed; run this again only after adding a case, where `torch`, `safetensors` and, for
deepspeed_schedules, `deepspeed` are installed:

    python3 tests/optim/make_goldens.py                           # writes the files
    python3 tests/optim/make_goldens.py --check                   # compares with the committed files, writes nothing
    python3 tests/optim/make_goldens.py --only group_schedules    # one file

The modules of golden_cases/ say what each file holds.
"""

import argparse
import pathlib
import sys

import torch
from golden_cases import clipping, deepspeed_schedules, lbfgs, optimizers, schedules
from safetensors import safe_open
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent


def differences(path, tensors, metadata):
    if not path.exists():
        return [f"{path.name} is missing"]
    with safe_open(path, "pt") as committed:
        if (committed.metadata() or {}) != metadata or set(committed.keys()) != set(tensors):
            return [f"{path.name}: cases or options differ"]
        return [
            f"{path.name}: {name} differs"
            for name in sorted(tensors)
            if not torch.allclose(committed.get_tensor(name), tensors[name], rtol=1e-12, atol=1e-14)
        ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the committed files, write nothing")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "goldens", help="folder (default: %(default)s)")
    parser.add_argument("--only", help="make or check this file alone, given without .safetensors")
    options = parser.parse_args()

    torch.set_num_threads(1)
    problems = []
    torch.set_default_dtype(torch.float64)  # that of NAdam's state mu_product
    for name, make in (
        ("optimizers", optimizers.optimizers),
        ("full_parameters", optimizers.full_parameters),
        ("lbfgs", lbfgs.lbfgs),
        ("schedules", schedules.schedules),
        ("group_schedules", schedules.group_schedules),
        ("deepspeed_schedules", deepspeed_schedules.deepspeed_schedules),
        ("clipping", clipping.clipping),
    ):
        if options.only not in (None, name):
            continue
        tensors, metadata = make()
        tensors = {key: value.detach().clone().contiguous() for key, value in tensors.items()}
        path = options.out / f"{name}.safetensors"
        if options.check:
            problems += differences(path, tensors, metadata)
            continue
        options.out.mkdir(parents=True, exist_ok=True)
        save_file(tensors, path, metadata=metadata or None)
        print(f"{path.name}: {len(metadata)} cases, {path.stat().st_size:,} bytes")
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
