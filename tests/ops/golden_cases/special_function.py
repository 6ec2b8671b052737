"""Special functions of one and of two elements."""

import torch

NAN, INFINITY = float("nan"), float("inf")
# name, function, range of the values, special values.
FUNCTIONS = [
    ("asin", torch.asin, (-0.95, 0.95), [0.0, -0.0, 1.0, -1.0, 1.5, 2.0**-40]),
    ("acos", torch.acos, (-0.95, 0.95), [0.0, -0.0, 1.0, -1.0, -1.5, 2.0**-40]),
    ("atan", torch.atan, (-4, 4), [0.0, -0.0, 1.0, 2.0**60, INFINITY, -INFINITY]),
    ("asinh", torch.asinh, (-4, 4), [0.0, -0.0, 2.0**-40, 2.0**60, -(2.0**60), INFINITY, -INFINITY]),
    ("acosh", torch.acosh, (1.25, 6), [1.0, 0.5, 2.0**60, INFINITY]),
    ("atanh", torch.atanh, (-0.9, 0.9), [0.0, -0.0, 1.0, -1.0, 1.5, 2.0**-40]),
    ("erfinv", torch.erfinv, (-0.95, 0.95), [0.0, -0.0, 1.0, -1.0, 1.5, 2.0**-40, 1 - 2.0**-7]),
    ("lgamma", torch.lgamma, (0.25, 12), [1.0, 2.0, 0.5, -0.5, -3.25, 0.0, -2.0, 100.0, 2.0**40, INFINITY]),
    ("digamma", torch.digamma, (0.25, 12), [1.0, 0.5, -0.5, -3.25, 0.0, -0.0, -2.0, 100.0, INFINITY]),
    ("sinc", torch.sinc, (0.1, 3), [0.0, 0.5, 1.5]),
]


def record(family):
    for name, function, (low, high), special in FUNCTIONS:
        family.case(name, "values", function, [family.uniform(low, high, 5, 7)])
        family.case(name, "scalar", function, [family.uniform(low, high)])
        family.case(name, "empty", function, [family.normal(0, 3)])
        values = torch.tensor(special + [NAN], dtype=torch.float64)
        family.case(name, "special", function, [values], forward_only=True)
    for n in (0, 1, 2, 4):
        family.case("polygamma", f"order_{n}", lambda x, n: torch.polygamma(n, x), [family.uniform(0.5, 12, 3, 5)], n=n)
    family.case("polygamma", "negative", lambda x, n: torch.polygamma(n, x), [family.uniform(-0.75, -0.25, 4)], n=1)

    shapes = [("same", (3, 4), (3, 4)), ("row", (2, 3, 4), (4,)), ("column", (3, 1), (1, 4)), ("scalar", (3, 4), ()), ("empty", (0, 3), (1, 3))]
    for case, first, second in shapes:
        a, b = family.distinct(*first), family.distinct(*second)
        for name, function in (("atan2", torch.atan2), ("hypot", torch.hypot), ("copysign", torch.copysign)):
            family.case(name, case, function, [a, b])
        family.case("xlogy", case, torch.xlogy, [a, family.uniform(0.25, 3, *second)])
        family.case("float_power", case, torch.float_power, [family.uniform(0.25, 3, *first), family.uniform(-2, 2, *second)])
        family.case("heaviside", case, torch.heaviside, [a, b], forward_only=True)
        family.case("nextafter", case, torch.nextafter, [a, b], forward_only=True)
    special = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.0**100, INFINITY, -INFINITY, NAN], dtype=torch.float64)
    for name, function in (
        ("atan2", torch.atan2), ("hypot", torch.hypot), ("copysign", torch.copysign), ("xlogy", torch.xlogy),
        ("heaviside", torch.heaviside), ("nextafter", torch.nextafter),
    ):
        family.case(name, "special", function, [special[:, None], special[None, :]], forward_only=True)
    origin = [torch.tensor([0.0, 0.0, 2.0], dtype=torch.float64), torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)]
    family.case("atan2_kinks", "origin", torch.atan2, origin)
    family.case("xlogy_kinks", "zero", torch.xlogy, origin, constant=(1,))
    family.case("sinc_kinks", "zero", torch.sinc, [torch.tensor([0.0], dtype=torch.float64)])

    inner = family.uniform(0.1, 0.9, 4, 5)
    family.case("logit", "values", torch.logit, [inner])
    family.case("logit", "bounded", lambda x, eps: torch.logit(x, eps), [inner], eps=0.25)
    family.case("logit", "special", torch.logit, [torch.tensor([0.0, 1.0, 0.5, NAN], dtype=torch.float64)], forward_only=True)

    x, low, high = family.distinct(3, 4), family.distinct(4) - 1, family.distinct(4) + 1.03125
    family.case("clamp", "both", torch.clamp, [x, low, high])
    family.case("clamp", "crossed", torch.clamp, [x, high, low])
    family.case("clamp", "row_of_one", torch.clamp, [x[:, :1].contiguous(), low, high])
    family.case("clamp_min", "row", lambda x, a: torch.clamp(x, min=a), [x, family.distinct(4) + 0.03125])
    family.case("clamp_max", "row", lambda x, a: torch.clamp(x, max=a), [x, family.distinct(4) + 0.03125])
    ties = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    family.case("clamp_kinks", "ties", torch.clamp, [ties, torch.tensor([0.0, 2.0, 1.0], dtype=torch.float64), torch.tensor([1.0, 4.0, 5.0], dtype=torch.float64)])
    number = torch.tensor([NAN, 1.0, 1.0, 2.0], dtype=torch.float64)
    family.case("clamp_kinks", "nan", torch.clamp, [number, torch.tensor([0.0, NAN, 0.0, 3.0], dtype=torch.float64),
                torch.tensor([2.0, 2.0, NAN, 1.0], dtype=torch.float64)], forward_only=True)
    family.case("lerp", "weights", torch.lerp, [family.normal(3, 4), family.normal(4), family.uniform(0, 1, 3, 1)])
