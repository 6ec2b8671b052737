"""Ops that read or write by index, and ops that sort: embedding, gather, scatter, one_hot, topk, sort."""

import torch
import torch.nn.functional as F


def embedding(weight, ids):
    return F.embedding(ids, weight)


def gather(x, index, axis):
    return torch.gather(x, axis, index)


def scatter(x, index, source, axis):
    return torch.scatter(x, axis, index, source)


def scatter_add(x, index, source, axis):
    return torch.scatter_add(x, axis, index, source)


def index_select(x, index, axis):
    return torch.index_select(x, axis, index)


def index_copy(x, index, source, axis):
    return torch.index_copy(x, axis, index, source)


def record(family):
    # embedding: the weight (rows, width), then the ids. Ids repeat, so gradients must add up.
    family.case("embedding", "tokens", embedding, [family.normal(5, 3), torch.tensor([[0, 4, 0], [2, 2, 1]])])
    family.case("embedding", "one_id", embedding, [family.normal(4, 3), torch.tensor(2)])
    family.case("embedding", "no_ids", embedding, [family.normal(4, 3), torch.zeros(0, dtype=torch.int64)])
    family.case("embedding", "i32", embedding, [family.normal(4, 3), torch.tensor([3, 0, 3], dtype=torch.int32)])

    family.case("gather", "last", gather, [family.normal(3, 4), family.integers(0, 4, 3, 6)], axis=1)
    family.case("gather", "first", gather, [family.normal(3, 4), family.integers(0, 3, 2, 4)], axis=0)
    family.case("gather", "shorter", gather, [family.normal(3, 4, 5), family.integers(0, 4, 2, 3, 4)], axis=1)
    family.case("gather", "empty", gather, [family.normal(3, 4), family.integers(0, 3, 0, 4)], axis=0)

    permutation = torch.stack([torch.randperm(4, generator=family.generator)[:3] for _ in range(3)])
    family.case("scatter", "last", scatter, [family.normal(3, 4), permutation, family.normal(3, 3)], axis=1)
    family.case("scatter", "first", scatter, [family.normal(4, 3), permutation.T, family.normal(3, 3)], axis=0)
    family.case(
        "scatter_add",
        "last",
        scatter_add,
        [family.normal(3, 4), family.integers(0, 4, 3, 6), family.normal(3, 6)],
        axis=1,
    )
    family.case(
        "scatter_add",
        "first",
        scatter_add,
        [family.normal(3, 4), family.integers(0, 3, 5, 4), family.normal(5, 4)],
        axis=0,
    )
    family.case("index_select", "rows", index_select, [family.normal(4, 3), torch.tensor([3, 0, 3])], axis=0)
    family.case("index_select", "middle", index_select, [family.normal(2, 4, 3), torch.tensor([1, 1, 2])], axis=1)
    family.case("index_select", "none", index_select, [family.normal(4, 3), torch.zeros(0, dtype=torch.int64)], axis=0)

    family.case(
        "take_along",
        "broadcast",
        lambda x, index, axis: torch.take_along_dim(x, index, axis),
        [family.normal(3, 4), family.integers(0, 4, 1, 6)],
        axis=1,
    )

    # one_hot returns i64, as PyTorch's.
    family.case("one_hot", "vector", lambda ids, classes: F.one_hot(ids, classes), [torch.tensor([0, 3, 1])], classes=4)
    family.case(
        "one_hot", "matrix", lambda ids, classes: F.one_hot(ids, classes), [family.integers(0, 5, 2, 3)], classes=5
    )

    # topk and sort return values and then indices; no two values are equal here.
    for case, shape, axis, k, largest in [
        ("last", (3, 6), 1, 2, True),
        ("first", (5, 3), 0, 3, True),
        ("smallest", (3, 6), 1, 4, False),
        ("all", (2, 5), 1, 5, True),
    ]:
        family.case(
            "topk",
            case,
            lambda x, k, axis, largest: torch.topk(x, k, axis, largest),
            [family.distinct(*shape)],
            k=k,
            axis=axis,
            largest=largest,
        )
    for case, shape, axis, descending in [
        ("last", (3, 6), 1, False),
        ("descending", (3, 6), 1, True),
        ("first", (5, 3), 0, False),
        ("middle", (2, 4, 3), 1, True),
    ]:
        family.case(
            "sort",
            case,
            lambda x, axis, descending: torch.sort(x, axis, descending),
            [family.distinct(*shape)],
            axis=axis,
            descending=descending,
        )
    # Equal values keep their order: the sort is stable.
    family.case(
        "sort",
        "ties_i64",
        lambda x, axis, descending: torch.sort(x, stable=True, dim=axis, descending=descending),
        [family.integers(0, 3, 2, 9)],
        axis=1,
        descending=False,
    )
    # Token rows and position rows, with an id that repeats and one that is never used.
    family.case(
        "embedding_add",
        "repeated",
        lambda weight, addend, ids: F.embedding(ids, weight) + addend,
        [family.normal(4, 5), family.normal(3, 5), torch.tensor([[1, 3, 1], [0, 1, 1]])],
    )

    mask = torch.tensor([[True, False, True, False], [False, False, True, True], [False, True, False, False]])
    row = torch.tensor([False, True, True, False])
    family.case("masked_select", "same", torch.masked_select, [family.normal(3, 4), mask])
    family.case("masked_select", "row", torch.masked_select, [family.normal(3, 4), row])
    family.case("masked_select", "wide_mask", torch.masked_select, [family.normal(4), mask])
    family.case("masked_select", "nothing", torch.masked_select, [family.normal(3, 4), torch.zeros_like(mask)])
    family.case("masked_scatter", "same", torch.masked_scatter, [family.normal(3, 4), mask, family.normal(2, 4)])
    family.case("masked_scatter", "row", torch.masked_scatter, [family.normal(3, 4), row, family.normal(6)])
    family.case("take", "matrix", torch.take, [family.normal(3, 4), torch.tensor([[0, -1, 5], [5, 11, -12]])])
    family.case("take", "one", torch.take, [family.normal(3, 4), torch.tensor(7)])
    family.case("take", "none", torch.take, [family.normal(3, 4), torch.zeros(0, dtype=torch.int64)])
    order = torch.tensor([2, 0])
    family.case("index_copy", "rows", index_copy, [family.normal(4, 3), order, family.normal(2, 3)], axis=0)
    family.case("index_copy", "middle", index_copy, [family.normal(2, 4, 3), order, family.normal(2, 2, 3)], axis=1)
    family.case("nonzero", "matrix", torch.nonzero, [family.integers(0, 2, 4, 5)])
    family.case("nonzero", "volume", torch.nonzero, [family.integers(0, 3, 2, 3, 4)])
    family.case("nonzero", "scalar", torch.nonzero, [torch.tensor(3)])
