#!/usr/bin/env python3
"""Writes tests/ops/goldens/<family>.safetensors: PyTorch's results and gradients of each op.

The files are committed, so neither the build nor the tests need Python. Run this again only after adding
a case, where `torch` and `safetensors` are installed:

    python3 tests/ops/make_goldens.py            # writes every family
    python3 tests/ops/make_goldens.py --check    # compares with the committed files and writes nothing

Layout of a file, for a case `layer_norm/no_bias`:

    layer_norm/no_bias/in0, in1, ...   inputs; floating ones in f64
    layer_norm/no_bias/out             the output (out0, out1, ... where there are several)
    layer_norm/no_bias/dout            the gradient of the output (dout0, dout1, ...)
    layer_norm/no_bias/grad0, ...      the gradient of input i; absent where an input has none

Arguments that are not tensors are in the file's metadata, as JSON under the key `layer_norm/no_bias`.

Inputs and output gradients are rounded to eight significant bits, so bf16, f16 and f32 hold them exactly:
a test in a narrow type then measures the error of the op alone, without that of its input.
"""

import argparse
import importlib
import json
import pathlib
import sys
import zlib

import torch
from safetensors import safe_open
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent
FAMILIES = [
    "unary",
    "activation_function",
    "binary",
    "comparison",
    "reduction",
    "matmul",
    "softmax",
    "normalization",
    "indexing",
    "movement",
    "loss",
    "losses",
    "attention",
    "convolution",
    "fused_convolution",
    "gated",
    "rotary",
    "methods",
    "linalg",
    "embedding_bag",
    "recurrence",
    "edges",
    "images",
    "resampling",
    "weight_norm",
    "special_function",
    "arrangements",
    "places",
    "statistics",
    "distance",
    "einsum",
]


def round_to_bf16(values):
    """The nearest values that bf16 holds, stored in f64."""
    return values.to(torch.bfloat16).to(torch.float64)


class Family:
    """Collects the cases of one file."""

    def __init__(self, name):
        self.generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        self.tensors = {}
        self.metadata = {}

    # Inputs. Each family has its own generator, so a change of one family does not change the others.

    def normal(self, *shape):
        return round_to_bf16(torch.randn(shape, generator=self.generator, dtype=torch.float64))

    def uniform(self, low, high, *shape):
        unit = torch.rand(shape, generator=self.generator, dtype=torch.float64)
        return round_to_bf16(low + (high - low) * unit)

    def distinct(self, *shape):
        """Values of which no two are equal: for ops that choose or sort elements."""
        count = torch.Size(shape).numel()
        order = torch.randperm(count, generator=self.generator).to(torch.float64)
        return ((order - count // 2) / 8 + 0.0625).reshape(shape)

    def integers(self, low, high, *shape, dtype=torch.int64):
        return torch.randint(low, high, shape, generator=self.generator).to(dtype)

    # Cases.

    def case(self, op, name, function, inputs, constant=(), forward_only=False, **arguments):
        """Records `function(*inputs, **arguments)` and its gradients.

        `constant` lists inputs that take no gradient; `forward_only` skips gradients where they are not well
        defined (at a kink, for example).
        """
        key = f"{op}/{name}"
        assert key not in self.metadata, f"{key} is recorded twice"
        self.metadata[key] = json.dumps(arguments)
        leaves = []
        for index, value in enumerate(inputs):
            value = value.detach().clone().contiguous()
            self.tensors[f"{key}/in{index}"] = value
            needs_gradient = value.is_floating_point() and index not in constant and not forward_only
            leaves.append(value.clone().requires_grad_(needs_gradient))

        outputs = function(*leaves, **arguments)
        if isinstance(outputs, torch.Tensor):
            outputs, suffixes = [outputs], [""]
        else:
            outputs = list(outputs)
            suffixes = [str(index) for index in range(len(outputs))]
        differentiable, grad_outputs = [], []
        for output, suffix in zip(outputs, suffixes):
            self.tensors[f"{key}/out{suffix}"] = output.detach().clone().contiguous()
            if output.requires_grad:
                gradient = self.normal(*output.shape)
                self.tensors[f"{key}/dout{suffix}"] = gradient
                differentiable.append(output)
                grad_outputs.append(gradient)
        if not differentiable:
            return
        sources = [(i, leaf) for i, leaf in enumerate(leaves) if leaf.requires_grad]
        gradients = torch.autograd.grad(differentiable, [leaf for _, leaf in sources], grad_outputs, allow_unused=True)
        for (index, _), gradient in zip(sources, gradients):
            if gradient is not None:
                self.tensors[f"{key}/grad{index}"] = gradient.detach().clone().contiguous()


def differences(path, family):
    """One line per difference between the committed file and the cases that this script makes."""
    if not path.exists():
        return [f"{path.name} is missing"]
    found = []
    with safe_open(path, "pt") as committed:
        if (committed.metadata() or {}) != family.metadata:
            found.append(f"{path.name}: cases or arguments differ")
        names = set(committed.keys())
        found += [f"{path.name}: only in one: {name}" for name in sorted(names ^ set(family.tensors))]
        for name in sorted(names & set(family.tensors)):
            old, new = committed.get_tensor(name), family.tensors[name]
            same = old.dtype == new.dtype and old.shape == new.shape
            if not same or not torch.allclose(old, new, rtol=1e-12, atol=1e-14, equal_nan=True):
                found.append(f"{path.name}: {name} differs")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", default=FAMILIES, help="families to make (default: all)")
    parser.add_argument("--check", action="store_true", help="compare with the committed files, write nothing")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "goldens", help="folder (default: %(default)s)")
    options = parser.parse_args()

    sys.path.insert(0, str(HERE))
    torch.set_num_threads(1)
    problems = []
    for name in options.families:
        family = Family(name)
        importlib.import_module(f"golden_cases.{name}").record(family)
        path = options.out / f"{name}.safetensors"
        if options.check:
            problems += differences(path, family)
            continue
        options.out.mkdir(parents=True, exist_ok=True)
        save_file(family.tensors, path, metadata=family.metadata)
        print(f"{path.name}: {len(family.metadata)} cases, {path.stat().st_size:,} bytes")
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
