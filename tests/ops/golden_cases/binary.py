"""Two inputs that broadcast against each other."""

import torch

OPS = [
    ("add", torch.add),
    ("sub", torch.sub),
    ("mul", torch.mul),
    ("div", torch.div),
    ("pow", torch.pow),
    ("maximum", torch.maximum),
    ("minimum", torch.minimum),
]
# case, shape of the first, shape of the second
SHAPES = [
    ("same", (3, 4), (3, 4)),
    ("row", (2, 3, 4), (4,)),
    ("column", (3, 1), (1, 4)),
    ("scalar", (3, 4), ()),
    ("scalar_first", (), (2, 3)),
    ("middle", (2, 1, 3), (2, 4, 1)),
    ("empty", (0, 3), (1, 3)),
]


def record(family):
    for name, function in OPS:
        for case, first, second in SHAPES:
            if name == "pow":
                a, b = family.uniform(0.25, 3, *first), family.uniform(-2, 2, *second)
            elif name == "div":
                a, b = family.normal(*first), family.uniform(0.5, 3, *second)
            elif name in ("maximum", "minimum"):
                a, b = family.distinct(*first), family.distinct(*second) + 0.03125  # no ties
            else:
                a, b = family.normal(*first), family.normal(*second)
            family.case(name, case, function, [a, b])
    for name, function in (("floor_divide", torch.floor_divide), ("remainder", torch.remainder)):
        divisor = family.integers(1, 5, 3) * torch.tensor([1, -1, 1])
        family.case(name, "i64", function, [family.integers(-9, 9, 2, 3), divisor])
        family.case(name, "f64", function, [family.normal(2, 3) * 4, family.uniform(0.5, 3, 3)], forward_only=True)
    for name, function in (
        ("bitwise_and", torch.bitwise_and),
        ("bitwise_or", torch.bitwise_or),
        ("bitwise_xor", torch.bitwise_xor),
    ):
        family.case(name, "i64", function, [family.integers(-9, 9, 2, 3), family.integers(-9, 9, 3)])
        family.case(name, "bool", function, [family.integers(0, 2, 2, 3).bool(), family.integers(0, 2, 3).bool()])
    for name, function in OPS:
        if name in ("div", "pow"):
            continue
        family.case(name, "i64", function, [family.integers(-9, 9, 2, 3), family.integers(-9, 9, 3)])
    # Integer powers of negative numbers are real.
    base = torch.tensor([-2.0, -1.5, -1.0, 0.5, 2.0], dtype=torch.float64)
    for exponent in (2.0, 3.0, -1.0):
        family.case(
            "pow",
            f"negative_base_{exponent:g}",
            torch.pow,
            [base, torch.tensor(exponent, dtype=torch.float64)],
            constant=(1,),
        )
    special = torch.tensor([0.0, 1.0, -1.0, 2.0**100, float("inf"), float("-inf"), float("nan")], dtype=torch.float64)
    for name, function in OPS:
        if name != "pow":
            family.case(name, "special", function, [special[:, None], special[None, :]], forward_only=True)
