"""Sums, means, extremes, variances, norms and products over axes; running sums."""

import torch

# case, shape, axes, keepdim
OVER = [
    ("last", (3, 4), [1], False),
    ("first", (3, 4), [0], False),
    ("middle_kept", (2, 3, 4), [1], True),
    ("outer_two", (2, 3, 4), [0, 1], False),
    ("ends", (2, 3, 4), [0, 2], True),
    ("all", (2, 3, 4), [0, 1, 2], False),
    ("all_kept", (2, 3), [0, 1], True),
    ("negative_axis", (2, 3, 4), [-2], False),
    ("long", (2, 301), [1], False),
]


def prod(x, axes, keepdim):
    for axis in sorted((a % x.dim() for a in axes), reverse=True):
        x = x.prod(axis, keepdim)
    return x


def record(family):
    for case, shape, axes, keepdim in OVER:
        over = dict(axes=axes, keepdim=keepdim)
        family.case("sum", case, lambda x, axes, keepdim: x.sum(axes, keepdim), [family.normal(*shape)], **over)
        family.case("mean", case, lambda x, axes, keepdim: x.mean(axes, keepdim), [family.normal(*shape)], **over)
        family.case("max", case, lambda x, axes, keepdim: x.amax(axes, keepdim), [family.distinct(*shape)], **over)
        family.case("min", case, lambda x, axes, keepdim: x.amin(axes, keepdim), [family.distinct(*shape)], **over)
        if case != "long":
            family.case("prod", case, prod, [family.uniform(0.5, 1.5, *shape)], **over)
        for correction in (0, 1):
            family.case(
                "var",
                f"{case}_correction{correction}",
                lambda x, axes, keepdim, correction: x.var(axes, correction=correction, keepdim=keepdim),
                [family.normal(*shape)],
                correction=correction,
                **over,
            )
        for p in (1.0, 2.0, 3.0, float("inf")):
            family.case(
                "norm",
                f"{case}_p{p:g}",
                lambda x, axes, keepdim, p: torch.linalg.vector_norm(x, float(p), axes, keepdim),
                [family.distinct(*shape) if p == float("inf") else family.normal(*shape)],
                p="inf" if p == float("inf") else p,
                **over,
            )
    for case, shape, axes, keepdim in OVER[:5]:
        over = dict(axes=axes, keepdim=keepdim)
        for name, function in (("any", torch.any), ("all", torch.all)):
            family.case(
                name,
                case,
                lambda x, axes, keepdim, f=function: f(x, axes, keepdim),
                [family.integers(0, 2, *shape).bool()],
                **over,
            )
        family.case(
            "std",
            case,
            lambda x, axes, keepdim, correction: x.std(axes, correction=correction, keepdim=keepdim),
            [family.normal(*shape)],
            correction=1,
            **over,
        )
    for case, shape, axis, keepdim in [
        ("last", (3, 4), 1, False),
        ("first_kept", (3, 4), 0, True),
        ("middle", (2, 5, 3), 1, False),
        ("negative_axis", (2, 5), -1, False),
    ]:
        along = dict(axis=axis, keepdim=keepdim)
        family.case(
            "argmax",
            case,
            lambda x, axis, keepdim: x.argmax(axis, keepdim),
            [family.distinct(*shape)],
            forward_only=True,
            **along,
        )
        family.case(
            "argmin",
            case,
            lambda x, axis, keepdim: x.argmin(axis, keepdim),
            [family.distinct(*shape)],
            forward_only=True,
            **along,
        )
    # Over no elements a sum is 0, a product is 1 and a mean is NaN.
    empty = dict(axes=[0], keepdim=False)
    family.case("sum", "empty", lambda x, axes, keepdim: x.sum(axes, keepdim), [family.normal(0, 3)], **empty)
    family.case("prod", "empty", prod, [family.normal(0, 3)], **empty)
    family.case(
        "mean",
        "empty",
        lambda x, axes, keepdim: x.mean(axes, keepdim),
        [family.normal(0, 3)],
        forward_only=True,
        **empty,
    )
    family.case(
        "sum",
        "i64",
        lambda x, axes, keepdim: x.sum(axes, keepdim),
        [family.integers(-9, 9, 3, 4)],
        axes=[1],
        keepdim=False,
    )
    # A product with zeros: its gradient is the product of the other values, which the quotient by x would not be.
    zeros = torch.tensor([[1.5, 0.0, 2.0], [0.0, 0.0, 3.0], [1.0, 2.0, 3.0]], dtype=torch.float64)
    family.case("prod", "zeros", prod, [zeros], axes=[1], keepdim=False)
    # Values with infinities and NaN.
    mixed = torch.tensor([[1.0, float("inf")], [float("inf"), float("-inf")], [float("nan"), 1.0]], dtype=torch.float64)
    for name, function in (
        ("sum", lambda x, axes, keepdim: x.sum(axes, keepdim)),
        ("max", lambda x, axes, keepdim: x.amax(axes, keepdim)),
        ("min", lambda x, axes, keepdim: x.amin(axes, keepdim)),
    ):
        family.case(name, "special", function, [mixed], forward_only=True, axes=[1], keepdim=False)
    for case, shape, axis in [
        ("last", (3, 4), 1),
        ("first", (3, 4), 0),
        ("middle", (2, 3, 4), 1),
        ("empty", (0, 3), 0),
    ]:
        family.case("cumsum", case, lambda x, axis: x.cumsum(axis), [family.normal(*shape)], axis=axis)
