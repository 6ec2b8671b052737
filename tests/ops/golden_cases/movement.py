"""Ops that move, join, split or repeat elements and compute nothing."""

import torch
import torch.nn.functional as F


def cut(x, axis, start, stop, step):
    picked = [slice(None)] * x.dim()
    picked[axis] = slice(start, stop, step)
    return x[tuple(picked)]


def pad(x, before, after, value):
    """before[i] and after[i] elements on axis i; PyTorch takes pairs from the last axis to the first."""
    pairs = [n for pair in reversed(list(zip(before, after))) for n in pair]
    return F.pad(x, pairs, value=value)


def record(family):
    new = family.normal
    family.case("reshape", "merge", lambda x, shape: x.reshape(shape), [new(2, 3, 4)], shape=[6, 4])
    family.case("reshape", "inferred", lambda x, shape: x.reshape(shape), [new(2, 3, 4)], shape=[4, -1])
    family.case("permute", "three", lambda x, axes: x.permute(axes), [new(2, 3, 4)], axes=[2, 0, 1])
    family.case("permute", "heads", lambda x, axes: x.permute(axes), [new(2, 3, 2, 4)], axes=[0, 2, 1, 3])
    family.case(
        "transpose", "last_two", lambda x, axis0, axis1: x.transpose(axis0, axis1), [new(2, 3, 4)], axis0=-2, axis1=-1
    )
    family.case("expand", "column", lambda x, shape: x.expand(shape), [new(3, 1)], shape=[3, 4])
    family.case("expand", "front", lambda x, shape: x.expand(shape), [new(4)], shape=[2, 3, 4])
    family.case("expand", "scalar", lambda x, shape: x.expand(shape), [new()], shape=[2, 3])
    family.case("squeeze", "middle", lambda x, axis: x.squeeze(axis), [new(2, 1, 3)], axis=1)
    family.case("unsqueeze", "last", lambda x, axis: x.unsqueeze(axis), [new(2, 3)], axis=-1)
    family.case("flip", "both", lambda x, axes: x.flip(axes), [new(2, 3)], axes=[0, 1])
    family.case("roll", "forward", lambda x, shift, axis: x.roll(shift, axis), [new(2, 5)], shift=2, axis=1)
    family.case("roll", "backward", lambda x, shift, axis: x.roll(shift, axis), [new(4, 2)], shift=-1, axis=0)
    family.case("repeat", "matrix", lambda x, repeats: x.repeat(repeats), [new(2, 3)], repeats=[2, 3])
    family.case("repeat", "new_axis", lambda x, repeats: x.repeat(repeats), [new(2, 3)], repeats=[2, 1, 2])
    family.case("slice", "range", cut, [new(5, 3)], axis=0, start=1, stop=4, step=1)
    family.case("slice", "step", cut, [new(2, 7)], axis=1, start=1, stop=7, step=3)
    family.case("slice", "nothing", cut, [new(4, 3)], axis=0, start=2, stop=2, step=1)
    family.case("cat", "rows", lambda *xs, axis: torch.cat(xs, axis), [new(2, 3), new(1, 3), new(4, 3)], axis=0)
    family.case("cat", "last", lambda *xs, axis: torch.cat(xs, axis), [new(2, 3), new(2, 2)], axis=-1)
    family.case("cat", "with_empty", lambda *xs, axis: torch.cat(xs, axis), [new(2, 3), new(0, 3)], axis=0)
    family.case(
        "cat",
        "i64",
        lambda *xs, axis: torch.cat(xs, axis),
        [family.integers(0, 9, 3), family.integers(0, 9, 2)],
        axis=0,
    )
    family.case("stack", "front", lambda *xs, axis: torch.stack(xs, axis), [new(2, 3), new(2, 3)], axis=0)
    family.case("stack", "last", lambda *xs, axis: torch.stack(xs, axis), [new(2, 3), new(2, 3), new(2, 3)], axis=2)
    family.case(
        "split", "sizes", lambda x, sizes, axis: torch.split(x, sizes, axis), [new(2, 6)], sizes=[1, 3, 2], axis=1
    )
    family.case(
        "split", "thirds", lambda x, sizes, axis: torch.split(x, sizes, axis), [new(2, 2, 9)], sizes=[3, 3, 3], axis=2
    )
    family.case("chunk", "even", lambda x, chunks, axis: torch.chunk(x, chunks, axis), [new(6, 2)], chunks=3, axis=0)
    family.case("chunk", "uneven", lambda x, chunks, axis: torch.chunk(x, chunks, axis), [new(2, 7)], chunks=3, axis=1)
    family.case("pad", "last", pad, [new(2, 3)], before=[0, 1], after=[0, 2], value=0.0)
    family.case("pad", "both", pad, [new(2, 3)], before=[1, 0], after=[2, 1], value=-1.5)
    for diagonal in (-1, 0, 1):
        for name, function in (("tril", torch.tril), ("triu", torch.triu)):
            family.case(
                name,
                f"diagonal{diagonal}",
                lambda x, diagonal, f=function: f(x, diagonal),
                [new(3, 4)],
                diagonal=diagonal,
            )
    family.case("tril", "batch", lambda x, diagonal: torch.tril(x, diagonal), [new(2, 3, 3)], diagonal=0)
    family.case("triu", "batch", lambda x, diagonal: torch.triu(x, diagonal), [new(2, 3, 3)], diagonal=0)
    family.case(
        "arange", "i64", lambda start, stop, step: torch.arange(start, stop, step), [], start=2, stop=11, step=3
    )
    family.case(
        "arange",
        "f64",
        lambda start, stop, step: torch.arange(start, stop, step, dtype=torch.float64),
        [],
        start=0.0,
        stop=1.0,
        step=0.25,
    )
    family.case(
        "linspace",
        "f64",
        lambda start, stop, count: torch.linspace(start, stop, count, dtype=torch.float64),
        [],
        start=-1.0,
        stop=2.0,
        count=7,
    )
