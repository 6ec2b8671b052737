"""Operations of the methods of a tensor that no other family records: medians and extremes along a dimension with
indices, products of given ranks, operations with one number, changes in place."""

import torch


def with_dim(name):
    """x.max(dim, keepdim) and the like, as a tuple of values and indices."""
    return lambda x, axis, keepdim: tuple(getattr(x, name)(axis, keepdim))


def in_place(name):
    """x.name(*others) on a copy of x, so that the leaf itself is not changed."""
    return lambda x, *others, **arguments: getattr(x.clone(), name)(*others, **arguments)


def record(family):
    for case, shape, axis, keepdim in [
        ("last", (3, 5), 1, False),
        ("even", (4, 3), 0, False),
        ("middle_kept", (2, 4, 3), 1, True),
        ("negative", (2, 3, 5), -1, False),
        ("one", (1, 3), 0, True),
    ]:
        for name in ("max", "min", "median"):
            family.case(
                f"{name}_along", case, with_dim(name), [family.distinct(*shape)], axis=axis, keepdim=keepdim
            )
    nan = torch.tensor([[3.0, float("nan"), 1.0], [2.0, 0.0, 1.0], [float("nan"), 1.0, float("nan")]])
    for name in ("max", "min", "median"):
        family.case(
            f"{name}_along", "nan", with_dim(name), [nan.double()], forward_only=True, axis=1, keepdim=False
        )
    family.case("median", "odd", lambda x: x.median(), [family.distinct(3, 5)])
    family.case("median", "even", lambda x: x.median(), [family.distinct(2, 3, 2)])
    family.case("median", "i64", lambda x: x.median(), [family.integers(-9, 9, 4, 2)])

    family.case("mm", "small", torch.mm, [family.normal(3, 4), family.normal(4, 2)])
    family.case("bmm", "small", torch.bmm, [family.normal(2, 3, 4), family.normal(2, 4, 2)])
    family.case("mv", "small", torch.mv, [family.normal(3, 4), family.normal(4)])
    family.case("dot", "small", torch.dot, [family.normal(7), family.normal(7)])
    family.case("outer", "small", torch.outer, [family.normal(3), family.normal(4)])

    for base in (0.5, 3.0):
        family.case("pow_of_number", f"{base:g}", lambda x, base: base**x, [family.normal(3, 4)], base=base)
    family.case(
        "pow_of_number", "zero", lambda x, base: base**x, [family.uniform(0.5, 2, 5)], base=0.0
    )
    away = family.distinct(3, 4)  # never equal to a bound below
    family.case("maximum_number", "one", lambda x, n: torch.maximum(x, torch.tensor(n).double()), [away], n=0.25)
    family.case("minimum_number", "one", lambda x, n: torch.minimum(x, torch.tensor(n).double()), [away], n=0.25)
    family.case("clamp_min", "one", lambda x, n: x.clamp_min(n), [away], n=0.25)
    family.case("clamp_max", "one", lambda x, n: x.clamp_max(n), [away], n=-0.25)
    condition = family.integers(0, 2, 3, 4).bool()
    family.case("where_number", "else", lambda x, c, n: torch.where(c, x, n), [family.normal(3, 4), condition], n=2.0)
    family.case("where_number", "then", lambda x, c, n: torch.where(c, n, x), [family.normal(3, 4), condition], n=2.0)

    family.case("unbind", "first", lambda x: x.unbind(0), [family.normal(3, 2)])
    family.case("unbind", "last", lambda x: x.unbind(-1), [family.normal(2, 3, 2)])
    family.case("t", "matrix", lambda x: x.t(), [family.normal(3, 2)])
    family.case("t", "vector", lambda x: x.t(), [family.normal(3)])
    family.case("squeeze_all", "some", lambda x: x.squeeze(), [family.normal(1, 3, 1, 2)])
    family.case("clone", "matrix", lambda x: x.clone(), [family.normal(3, 2)])
    family.case("eye", "square", lambda n, m: torch.eye(n, m, dtype=torch.float64), [], n=3, m=3)
    family.case("eye", "wide", lambda n, m: torch.eye(n, m, dtype=torch.float64), [], n=2, m=4)
    family.case("eye", "tall", lambda n, m: torch.eye(n, m, dtype=torch.float64), [], n=4, m=2)

    positive = family.uniform(0.5, 2, 3, 4)
    for name in "neg square relu exp log sqrt rsqrt reciprocal sin cos tanh sigmoid floor ceil round abs".split():
        family.case(f"{name}_", "matrix", in_place(f"{name}_"), [positive])
    for name in ("add_", "sub_", "mul_", "div_", "copy_"):
        family.case(name, "row", in_place(name), [family.normal(3, 4), family.uniform(0.5, 2, 4)])
    family.case("pow_", "cube", in_place("pow_"), [positive, torch.tensor(3.0).double()], constant=[1])
    family.case("clamp_", "both", lambda x: x.clone().clamp_(0.75, 1.5), [positive])
    family.case("fill_", "one", lambda x: x.clone().fill_(1.5) + x, [positive])
    family.case("zero_", "one", lambda x: x.clone().zero_() + x, [positive])
