"""Activation functions with parameters, and piecewise ones: values without kinks, special values, kinks."""

import torch
import torch.nn.functional as F

# name, function, arguments, kinks.
FUNCTIONS = [
    ("leaky_relu", F.leaky_relu, dict(negative_slope=0.25), [0.0]),
    ("elu", F.elu, dict(alpha=0.75), [0.0]),
    ("selu", F.selu, {}, []),
    ("celu", F.celu, dict(alpha=1.5), [0.0]),
    ("mish", F.mish, {}, [0.0]),
    ("hardswish", F.hardswish, {}, [-3.0, 3.0]),
    ("hardsigmoid", F.hardsigmoid, {}, [-3.0, 3.0]),
    ("hardtanh", F.hardtanh, dict(min_val=-1.5, max_val=2.0), [-1.5, 2.0]),
    ("relu6", F.relu6, {}, [0.0, 6.0]),
    ("softplus", F.softplus, dict(beta=1.5, threshold=4.0), []),
    ("softsign", F.softsign, {}, [0.0]),
    ("softshrink", F.softshrink, dict(lambd=0.75), [-0.75, 0.75]),
    ("hardshrink", F.hardshrink, dict(lambd=0.75), [-0.75, 0.75]),
    ("tanhshrink", F.tanhshrink, {}, [0.0]),
    ("threshold", F.threshold, dict(threshold=0.5, value=-2.0), [0.5]),
    ("logsigmoid", F.logsigmoid, {}, [0.0]),
    ("rrelu", lambda x, lower, upper: F.rrelu(x, lower, upper, training=False), dict(lower=0.125, upper=0.5), [0.0]),
]
SPECIAL = [0.0, -0.0, 0.25, -0.25, 64.0, -64.0, 2.0**60, -(2.0**60), 2.0**-60, -(2.0**-60)]
NAN, INFINITY = float("nan"), float("inf")


def record(family):
    for name, function, arguments, kinks in FUNCTIONS:
        at_kinks = function
        if name == "hardsigmoid":  # PyTorch's derivative in f64 is 1/6 in f32
            function = lambda x: torch.clamp(x + 3, 0, 6) / 6
        family.case(name, "values", function, [family.distinct(5, 11)[:, :7].contiguous() * 2], **arguments)
        family.case(name, "scalar", function, [family.uniform(-2.5, -2)], **arguments)
        family.case(name, "empty", function, [family.normal(0, 3)], **arguments)
        # PyTorch's formula of mish gives NaN, its limit being 0.
        extremes = [INFINITY, -INFINITY] if name not in ("softsign", "hardswish", "mish") else [INFINITY][:0]
        special = torch.tensor(SPECIAL + extremes + [NAN], dtype=torch.float64)
        family.case(name, "special", function, [special], forward_only=True, **arguments)
        if kinks:
            family.case(f"{name}_kinks", "kinks", at_kinks, [torch.tensor(kinks, dtype=torch.float64)], **arguments)
    for case, shape, count in [
        ("channels", (2, 3, 4), 3), ("one", (2, 3, 4), 1), ("vector", (4,), 1), ("matrix", (5, 2), 2), ("empty", (0, 3), 3),
    ]:
        values = family.distinct(*shape) if case != "empty" else family.normal(*shape)
        family.case("prelu", case, F.prelu, [values, family.uniform(0.1, 0.9, count)])
    for dim in (0, 1, -1):
        family.case("softmin", f"dim_{dim}", F.softmin, [family.normal(2, 3, 4)], dim=dim)
