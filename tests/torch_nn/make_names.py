"""Writes names.txt: the public names of torch.nn and torch.nn.functional, one a line ("nn.ReLU", "F.relu").

Of torch.nn these are the classes and functions; of torch.nn.functional the functions, without those that it imports
for its own use (typing, torch.overrides, ...).
Usage: make_names.py (recorded with PyTorch 2.15)
"""

import pathlib
import types

import torch.nn
import torch.nn.functional

FOREIGN = ("typing", "collections", "torch.overrides", "torch._jit_internal")


def is_public(name, value, wanted):
    if name.startswith("_") or isinstance(value, types.ModuleType) or not isinstance(value, wanted):
        return False
    return getattr(value, "__module__", None) not in FOREIGN


functions = (types.FunctionType, types.BuiltinFunctionType)
names = ["nn." + name for name, value in vars(torch.nn).items() if is_public(name, value, (type,) + functions)]
helpers = ("assert_int_or_pair", "boolean_dispatch", "has_torch_function")
names += [
    "F." + name
    for name, value in vars(torch.nn.functional).items()
    if is_public(name, value, functions) and not name.startswith(helpers)
]
path = pathlib.Path(__file__).parent / "names.txt"
path.write_text("\n".join(sorted(names)) + "\n")
