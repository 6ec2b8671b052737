"""One input, one output, element by element: arithmetic, exponentials, rounding and activations."""

import torch
import torch.nn.functional as F

# name, function, domain. Domains contain no kinks or poles; those are in the `special` cases.
SMOOTH = [
    ("neg", torch.neg, (-3, 3)),
    ("square", torch.square, (-3, 3)),
    ("exp", torch.exp, (-4, 4)),
    ("exp2", torch.exp2, (-4, 4)),
    ("expm1", torch.expm1, (-4, 4)),
    ("log", torch.log, (0.05, 6)),
    ("log1p", torch.log1p, (-0.9, 6)),
    ("log2", torch.log2, (0.05, 6)),
    ("log10", torch.log10, (0.05, 6)),
    ("sqrt", torch.sqrt, (0.05, 6)),
    ("rsqrt", torch.rsqrt, (0.05, 6)),
    ("reciprocal", torch.reciprocal, (0.25, 4)),
    ("sin", torch.sin, (-6, 6)),
    ("cos", torch.cos, (-6, 6)),
    ("tan", torch.tan, (-1.25, 1.25)),
    ("tanh", torch.tanh, (-4, 4)),
    ("erf", torch.erf, (-3, 3)),
    ("erfc", torch.erfc, (-3, 3)),
    ("sigmoid", torch.sigmoid, (-6, 6)),
    ("gelu", lambda x: F.gelu(x, approximate="none"), (-5, 5)),
    ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), (-5, 5)),
    ("silu", F.silu, (-6, 6)),
    ("softplus", F.softplus, (-6, 6)),
]
# Piecewise linear, or constant with a gradient of zero.
PIECEWISE = [
    ("abs", torch.abs),
    ("sign", torch.sign),
    ("relu", torch.relu),
    ("floor", torch.floor),
    ("ceil", torch.ceil),
    ("round", torch.round),  # to the nearest, ties to even, as NumPy and IEEE 754
    ("trunc", torch.trunc),
]
# Zeros of both signs, infinities, NaN, and powers of two that f32 and bf16 hold. sin, cos and tan of 2^100 are left
# out: reducing such an argument needs hundreds of bits of pi, and no model needs it.
SPECIAL = [0.0, -0.0, 1.0, -1.0, 64.0, -64.0, 2.0**100, -(2.0**100), 2.0**-100, -(2.0**-100)]
EXTREME = [float("inf"), float("-inf"), float("nan")]

# Derivatives in one pass, as functions of the argument and the gradient of the output.
DERIVATIVES = {
    "gelu_backward": (lambda x: F.gelu(x, approximate="none"), -5, 5),
    "gelu_tanh_backward": (lambda x: F.gelu(x, approximate="tanh"), -5, 5),
    "silu_backward": (F.silu, -6, 6),
    "softplus_backward": (F.softplus, -6, 6),
}


def derivative_of(function):
    """dy * function'(x) as a function of x and dy, differentiable itself."""

    def backward(x, dy):
        return torch.autograd.grad(function(x), x, dy, create_graph=True)[0]

    return backward


def record(family):
    for name, function, (low, high) in SMOOTH:
        family.case(name, "values", function, [family.uniform(low, high, 3, 5)])
        family.case(name, "scalar", function, [family.uniform(low, high)])
        family.case(name, "empty", function, [family.uniform(low, high, 0, 3)])
        finite = [v for v in SPECIAL if name not in ("sin", "cos", "tan") or abs(v) <= 64]
        special = torch.tensor(finite + EXTREME, dtype=torch.float64)
        family.case(name, "special", function, [special], forward_only=True)
    for name, function in PIECEWISE:
        values = family.distinct(4, 5) * 1.25  # never an integer, never zero
        family.case(name, "values", function, [values])
        family.case(name, "empty", function, [family.normal(0, 3)])
        special = torch.tensor(SPECIAL + [0.5, 1.5, -2.5] + EXTREME, dtype=torch.float64)
        family.case(name, "special", function, [special], forward_only=True)
    for name, (function, low, high) in DERIVATIVES.items():
        argument = family.uniform(low, high, 3, 5)
        family.case(name, "values", derivative_of(function), [argument, family.normal(3, 5)])
    family.case(
        "tanh_backward", "values", lambda y, dy: dy * (1 - y * y), [family.uniform(-1, 1, 3, 5), family.normal(3, 5)]
    )
    family.case(
        "sigmoid_backward", "values", lambda y, dy: dy * y * (1 - y), [family.uniform(0, 1, 3, 5), family.normal(3, 5)]
    )
    family.case(
        "relu_backward",
        "values",
        lambda x, dy: dy * (x > 0),
        [family.distinct(3, 5), family.normal(3, 5)],
        constant=(0,),
    )
    family.case("neg", "i64", torch.neg, [family.integers(-9, 9, 7)])
    family.case("abs", "i64", torch.abs, [family.integers(-9, 9, 7)])
