"""Inputs at which formulas fail: powers of 0, extremes with NaNs, deviations of equal values, logits of 2^24.

Finite differences do not give the derivative at these inputs; the gradients are PyTorch's by convention.
"""

import torch
from golden_cases.loss import cross_entropy

NAN, INFINITY = float("nan"), float("inf")
LARGE = 2.0**24  # f32 has no fractional digits here


def row(*values):
    return torch.tensor([values], dtype=torch.float64)


def vector(*values):
    return torch.tensor(values, dtype=torch.float64)


def by_rows(function):
    """Reduces each row by itself: over axes PyTorch's results differ for NaNs and without degrees of freedom."""
    return lambda x, axes, keepdim, **options: torch.stack([function(values, **options) for values in x])


def record(family):
    # For y below 0 the derivative of 0^y by y is minus infinity; with y = 0 the power is 1 for every base.
    base = vector(0.0, 0.0, 0.0, -0.0, NAN, INFINITY, 4.0)
    family.case("pow", "zeros", torch.pow, [base, vector(0.0, 2.0, -1.0, 0.0, 0.0, 0.0, 0.0)])

    a, b = vector(1.0, NAN, 1.0, NAN, INFINITY), vector(1.0, 1.0, NAN, NAN, INFINITY)
    family.case("maximum", "equal_or_nan", torch.maximum, [a, b])
    family.case("minimum", "equal_or_nan", torch.minimum, [a, b])

    last = dict(axes=[1], keepdim=False)
    for name, function in (("max", torch.max), ("min", torch.min)):
        for case, values in [
            ("two_nans", row(NAN, 1.0, NAN)),
            ("all_nan", row(NAN, NAN)),
            ("nan_beside_infinity", row(INFINITY, NAN, -INFINITY)),
            ("nan_in_one_row", vector(1.5, NAN, 2.0, 2.0).reshape(2, 2)),
        ]:
            family.case(name, case, by_rows(function), [values], **last)

    for name, function in (("var", torch.var), ("std", torch.std)):
        for case, values, correction in [
            ("equal", row(2.0, 2.0, 2.0, 2.0), 1),
            ("no_freedom", row(1.0, 2.0), 2),
            ("less_than_no_freedom", row(1.0, 2.0), 3),
            ("equal_without_freedom", row(3.0, 3.0), 2),
            ("one_value", row(3.0), 1),
        ]:
            family.case(name, case, by_rows(function), [values], correction=correction, **last)

    settings = dict(ignore_index=-100, label_smoothing=0.0, reduction="mean")
    target = torch.tensor([0])
    family.case("cross_entropy", "large", cross_entropy, [row(LARGE, LARGE), target], **settings)
    family.case(
        "linear_cross_entropy",
        "large",
        lambda x, weight, target, bias, **options: cross_entropy(x @ weight.T, target, **options),
        [row(LARGE), vector(1.0, 1.0).reshape(2, 1), target],
        bias=False,
        **settings,
    )
    family.case(
        "logsumexp", "large", lambda x, axes, keepdim: torch.logsumexp(x, axes, keepdim), [row(LARGE, LARGE)], **last
    )
