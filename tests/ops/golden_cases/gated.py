"""Gated linear units of a gate and a value, and of the two halves of one tensor."""

import functools

import torch
import torch.nn.functional as F

GATES = {
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": functools.partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
}


def gated(gate, x, f):
    return GATES[f](gate) * x


def record(family):
    for f in GATES:
        family.case("gated", f, gated, [family.normal(3, 5), family.normal(3, 5)], f=f)
    family.case("gated", "long", gated, [family.normal(1, 2060), family.normal(1, 2060)], f="silu")
    family.case("gated", "one", gated, [family.normal(1), family.normal(1)], f="gelu")
    family.case("gated", "empty", gated, [family.normal(0, 3), family.normal(0, 3)], f="silu")
    family.case("swiglu", "plain", gated, [family.normal(2, 3, 4), family.normal(2, 3, 4)], f="silu")
    family.case("geglu", "plain", gated, [family.normal(2, 3, 4), family.normal(2, 3, 4)], f="gelu")
    family.case("glu", "last", F.glu, [family.normal(3, 4, 6)], dim=-1)
    family.case("glu", "first", F.glu, [family.normal(4, 3, 5)], dim=0)
    family.case("glu", "middle", F.glu, [family.normal(2, 6, 5)], dim=1)
    family.case("glu", "two", F.glu, [family.normal(2)], dim=0)
    family.case("glu", "empty", F.glu, [family.normal(3, 0)], dim=1)
    for op, f in (("swiglu", "silu"), ("geglu", "gelu")):  # few enough elements for second derivatives
        family.case(op, "small", gated, [family.normal(2, 3), family.normal(2, 3)], f=f)
