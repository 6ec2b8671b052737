"""Writing by index, with reductions."""

import torch


def record(family):
    x, source = family.distinct(4, 5), family.distinct(3, 6) + 0.03125
    index = family.integers(0, 4, 3, 4)
    rows, columns = family.integers(0, 4, 6), family.integers(0, 5, 6)
    for accumulate in (False, True):
        # Without sums, of places that differ.
        r, c = (rows, columns) if accumulate else (torch.tensor([3, 0, 2, 0, 1, 3]), torch.tensor([0, 1, 2, 4, 3, 4]))
        family.case("index_put", f"pairs_{int(accumulate)}", lambda x, r, c, v, accumulate: x.index_put((r, c), v, accumulate), [x, r, c, family.normal(6)], accumulate=accumulate)
    for reduction in ("sum", "prod", "mean", "amax", "amin"):
        for include_self in (True, False):
            arguments = dict(dim=0, reduce=reduction, include_self=include_self)
            run = lambda x, i, s, dim, reduce, include_self: x.scatter_reduce(dim, i, s[tuple(map(slice, i.shape))], reduce, include_self=include_self)
            name = f"{reduction}_{int(include_self)}"
            family.case("scatter_reduce", name, run, [x, index, source], **arguments)
            family.case("scatter_reduce", f"{name}_empty", run, [x, torch.zeros(0, 5, dtype=torch.int64), family.normal(0, 5)], **arguments)
            along = dict(arguments, dim=1)
            family.case("scatter_reduce", f"{name}_columns", run, [x, family.integers(0, 5, 3, 6), source], **along)
            if reduction == "sum":
                continue
            slices = lambda x, i, s, dim, reduce, include_self: x.index_reduce(dim, i, s, reduce, include_self=include_self)
            family.case("index_reduce", name, slices, [x, torch.tensor([1, 3, 1]), family.distinct(3, 5) + 0.03125], **arguments)
    ones = torch.tensor([[2.0, 2.0, 1.0, 3.0]], dtype=torch.float64)
    places = torch.tensor([[0, 0, 1, 1, 0]])
    values = torch.tensor([[2.0, 2.0, 0.5, 1.0, 1.0]], dtype=torch.float64)
    run = lambda x, i, s, dim, reduce, include_self: x.scatter_reduce(dim, i, s[tuple(map(slice, i.shape))], reduce, include_self=include_self)
    for reduction in ("amax", "amin"):
        for include_self in (True, False):
            family.case("scatter_reduce_kinks", f"{reduction}_{int(include_self)}", run, [ones, places, values], dim=1, reduce=reduction, include_self=include_self)
    zeros = torch.tensor([0.0, 2.0, 0.0, 3.0, 1.5], dtype=torch.float64)
    factors = torch.tensor([2.0, 0.0, 0.5, 0.0, 0.0, 4.0], dtype=torch.float64)
    family.case("scatter_reduce", "zeros", run, [zeros, torch.tensor([0, 1, 1, 2, 3, 3]), factors], dim=0, reduce="prod", include_self=True)
    number = torch.tensor([float("nan"), 1.0, float("inf"), -1.0], dtype=torch.float64)
    for reduction in ("amax", "amin"):
        family.case("scatter_reduce", f"special_{reduction}", run, [number, torch.tensor([0, 1, 1, 2, 3]), torch.tensor([1.0, float("nan"), 2.0, 5.0, -float("inf")], dtype=torch.float64)],
                    forward_only=True, dim=0, reduce=reduction, include_self=True)
    family.case("take_along_dim", "columns", torch.take_along_dim, [x, family.integers(0, 5, 4, 3)], dim=1)
    family.case("take_along_dim", "flat", torch.take_along_dim, [x, family.integers(0, 20, 2, 3)])
    family.case("take_along_dim", "broadcast", torch.take_along_dim, [x, family.integers(0, 5, 1, 3)], dim=1)

    i = family.integers(0, 6, 3, 4)
    for invert in (False, True):
        family.case("isin", f"integers_{int(invert)}", lambda x, t, invert: torch.isin(x, t, invert=invert), [i, torch.tensor([5, 1, 1])], invert=invert)
    family.case("isin", "nothing", lambda x, t, invert: torch.isin(x, t, invert=invert), [i, torch.zeros(0, dtype=torch.int64)], invert=True)
    family.case("isin", "floating", lambda x, t, invert: torch.isin(x, t, invert=invert), [torch.tensor([1.0, float("nan"), -2.0], dtype=torch.float64), torch.tensor([float("nan"), -2.0], dtype=torch.float64)], forward_only=True, invert=False)
    family.case("unique_consecutive", "groups", torch.unique_consecutive, [torch.tensor([1, 1, 2, 2, 2, 1, 3, 3])])
    family.case("unique_consecutive", "empty", torch.unique_consecutive, [torch.zeros(0, dtype=torch.int64)])
    family.case("unique_consecutive", "one", torch.unique_consecutive, [torch.tensor([4])])
    unsorted = family.distinct(3, 6)
    for right in (False, True):
        family.case("searchsorted", f"sorter_{int(right)}", lambda x, v, s, right: torch.searchsorted(x, v, right=right, sorter=s), [unsorted, unsorted[:, :4].contiguous(), unsorted.argsort(-1)], forward_only=True, right=right)
        family.case("bucketize", f"right_{int(right)}", lambda x, b, right: torch.bucketize(x, b, right=right), [unsorted, unsorted[0].sort().values], forward_only=True, right=right)
