"""Ops with boolean results; ops that choose elements: where, masked_fill, clamp; other ops of three operands."""

import torch

COMPARISONS = [
    ("equal", torch.eq),
    ("not_equal", torch.ne),
    ("less", torch.lt),
    ("less_equal", torch.le),
    ("greater", torch.gt),
    ("greater_equal", torch.ge),
]
LOGICAL = [("logical_and", torch.logical_and), ("logical_or", torch.logical_or), ("logical_xor", torch.logical_xor)]


def clamp(x, min, max):
    return torch.clamp(x, min, max)


def record(family):
    special = torch.tensor([0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan")], dtype=torch.float64)
    for name, function in COMPARISONS:
        family.case(
            name,
            "broadcast",
            function,
            [family.integers(-2, 3, 3, 4).double(), family.integers(-2, 3, 4).double()],
            forward_only=True,
        )
        family.case(name, "special", function, [special[:, None], special[None, :]], forward_only=True)
        family.case(name, "i64", function, [family.integers(-2, 3, 3, 4), family.integers(-2, 3, 3, 4)])
    for name, function in LOGICAL:
        family.case(name, "broadcast", function, [family.integers(0, 2, 3, 4).bool(), family.integers(0, 2, 4).bool()])
    family.case("logical_not", "values", torch.logical_not, [family.integers(0, 2, 3, 4).bool()])
    for name, function in (("isnan", torch.isnan), ("isinf", torch.isinf), ("isfinite", torch.isfinite)):
        family.case(name, "special", function, [special], forward_only=True)

    family.case(
        "where", "same", torch.where, [family.integers(0, 2, 3, 4).bool(), family.normal(3, 4), family.normal(3, 4)]
    )
    family.case(
        "where",
        "broadcast",
        torch.where,
        [family.integers(0, 2, 3, 1).bool(), family.normal(4), family.normal(2, 1, 1)],
    )
    family.case(
        "where", "empty", torch.where, [family.integers(0, 2, 0, 4).bool(), family.normal(0, 4), family.normal(4)]
    )
    family.case(
        "masked_fill",
        "row",
        lambda x, mask, value: x.masked_fill(mask, value),
        [family.normal(2, 3, 4), family.integers(0, 2, 3, 4).bool()],
        value=-2.5,
    )
    family.case("bitwise_not", "i64", torch.bitwise_not, [family.integers(-9, 9, 3, 4)])
    family.case("bitwise_not", "bool", torch.bitwise_not, [family.integers(0, 2, 3, 4).bool()])
    family.case(
        "lerp",
        "row",
        lambda a, b, weight: torch.lerp(a, b.expand_as(a), weight),
        [family.normal(3, 4), family.normal(4)],
        weight=0.25,
    )
    for name, function in (("addcmul", torch.addcmul), ("addcdiv", torch.addcdiv)):
        family.case(
            name,
            "broadcast",
            lambda x, a, b, factor, f=function: f(x, a, b, value=factor),
            [family.normal(3, 4), family.normal(4), family.uniform(0.5, 3, 3, 1)],
            factor=-0.5,
        )
    family.case("clamp", "both", clamp, [family.distinct(4, 5)], min=-0.5, max=0.75)
    family.case("clamp", "low", clamp, [family.distinct(4, 5)], min=0.0, max=None)
    family.case("clamp", "high", clamp, [family.distinct(4, 5)], min=None, max=0.5)
    family.case("clamp", "special", clamp, [special], forward_only=True, min=-0.5, max=0.5)
