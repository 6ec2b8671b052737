"""softmax, log_softmax and logsumexp."""

import torch


def record(family):
    minus_infinity = float("-inf")
    for name, function in (
        ("softmax", lambda x, axis: torch.softmax(x, axis)),
        ("log_softmax", lambda x, axis: torch.log_softmax(x, axis)),
    ):
        family.case(name, "last", function, [family.normal(3, 5)], axis=-1)
        family.case(name, "middle", function, [family.normal(2, 4, 3)], axis=1)
        family.case(name, "first", function, [family.normal(4, 3)], axis=0)
        family.case(name, "long", function, [family.normal(2, 301)], axis=1)
        family.case(name, "one", function, [family.normal(3, 1)], axis=1)
        family.case(name, "empty", function, [family.normal(0, 3)], axis=1)
        # Values whose exponentials would overflow every dtype.
        family.case(name, "huge", function, [family.distinct(3, 5) * 4096], axis=1)
        masked = family.normal(3, 5)
        masked[0, 2:] = minus_infinity
        masked[2, 0] = minus_infinity
        family.case(name, "masked", function, [masked], forward_only=True, axis=1)
    for case, shape, axes, keepdim in [
        ("last", (3, 5), [1], False),
        ("ends_kept", (2, 3, 4), [0, 2], True),
        ("all", (2, 3), [0, 1], False),
    ]:
        family.case(
            "logsumexp",
            case,
            lambda x, axes, keepdim: torch.logsumexp(x, axes, keepdim),
            [family.normal(*shape)],
            axes=axes,
            keepdim=keepdim,
        )
    family.case(
        "logsumexp",
        "huge",
        lambda x, axes, keepdim: torch.logsumexp(x, axes, keepdim),
        [family.distinct(3, 5) * 4096],
        axes=[1],
        keepdim=False,
    )
    all_masked = torch.full((2, 3), minus_infinity, dtype=torch.float64)
    family.case(
        "logsumexp",
        "all_masked",
        lambda x, axes, keepdim: torch.logsumexp(x, axes, keepdim),
        [all_masked],
        forward_only=True,
        axes=[1],
        keepdim=False,
    )
