"""Cutting, joining and arranging."""

import torch


def powers(x, columns, increasing):
    """torch.vander, of which PyTorch has no derivative."""
    exponents = range(columns) if increasing else range(columns - 1, -1, -1)
    result = torch.stack([x**k for k in exponents], 1) if columns else x[:, None][:, :0]
    assert torch.equal(result, torch.vander(x, columns, increasing))
    return result


def record(family):
    x, wide, cube = family.normal(5, 4), family.normal(3, 7), family.normal(2, 3, 4)
    vector, other = family.normal(4), family.normal(3)
    for sections, dim in ((2, 0), (3, 1), (7, 0)):
        family.case("tensor_split", f"{sections}_of_{dim}", lambda x, sections, dim: torch.tensor_split(x, sections, dim), [x], sections=sections, dim=dim)
    family.case("tensor_split", "indices", lambda x, indices, dim: torch.tensor_split(x, tuple(indices), dim), [wide], indices=[2, 5], dim=-1)
    family.case("tensor_split", "indices_apart", lambda x, indices, dim: torch.tensor_split(x, tuple(indices), dim), [wide], indices=[4, -1], dim=1)
    for name, value, dim, size, step in (("overlap", wide, 1, 3, 1), ("gaps", wide, -1, 2, 3), ("first", cube, 0, 2, 1), ("middle", cube, 1, 2, 1), ("none", cube, 2, 0, 2)):
        family.case("unfold_along", name, lambda x, dim, size, step: x.unfold(dim, size, step), [value], dim=dim, size=size, step=step)
    family.case("unfold_along", "scalar", lambda x, dim, size, step: x.unfold(dim, size, step), [family.normal()], dim=0, size=1, step=1)
    family.case("block_diag", "three", torch.block_diag, [x, vector, wide])
    family.case("block_diag", "scalar_and_empty", torch.block_diag, [family.normal(), family.normal(0, 2), family.normal(1, 0)])
    family.case("cartesian_prod", "three", torch.cartesian_prod, [vector, other, family.normal(2)])
    family.case("cartesian_prod", "one", torch.cartesian_prod, [vector])
    family.case("cartesian_prod", "empty", torch.cartesian_prod, [vector, family.normal(0)])
    for r in (0, 1, 2, 3, 5):
        for replacement in (False, True):
            family.case("combinations", f"{r}_{int(replacement)}", lambda x, r, with_replacement: torch.combinations(x, r, with_replacement), [vector], r=r, with_replacement=replacement)
    for name, value, offset, dim1, dim2 in (("vector", vector, 0, -2, -1), ("above", wide, 2, -2, -1), ("below", wide, -1, 0, 2), ("exchanged", cube, 1, 3, 0), ("empty", family.normal(2, 0), 0, -2, -1)):
        family.case("diag_embed", name, torch.diag_embed, [value], offset=offset, dim1=dim1, dim2=dim2)
    for name, value, offset, dim1, dim2 in (("matrix", x, 0, 0, 1), ("above", x, 1, 0, 1), ("below", x, -3, 0, 1), ("dims", cube, 1, 2, 0), ("outside", x, 9, 0, 1)):
        source = family.normal(*torch.diagonal(value, offset, dim1, dim2).shape)
        family.case("diagonal_scatter", name, torch.diagonal_scatter, [value, source], offset=offset, dim1=dim1, dim2=dim2)
    family.case("select_scatter", "row", torch.select_scatter, [x, family.normal(4)], dim=0, index=2)
    family.case("select_scatter", "from_the_end", torch.select_scatter, [cube, family.normal(2, 4)], dim=-2, index=-1)
    for name, start, end, step in (("part", 1, 4, 1), ("step", 0, 5, 2), ("from_the_end", -2, 5, 1), ("nothing", 3, 3, 1)):
        source = family.normal(len(range(5)[start:end:step]), 4)
        family.case("slice_scatter", name, lambda x, s, dim, start, end, step: torch.slice_scatter(x, s, dim, start, end, step), [x, source], dim=0, start=start, end=end, step=step)
    for k in (0, 1, 2, 3, -1, 5):
        family.case("rot90", f"turn_{k}", lambda x, k, dims: torch.rot90(x, k, dims), [x], k=k, dims=[0, 1])
    family.case("rot90", "other_plane", lambda x, k, dims: torch.rot90(x, k, dims), [cube], k=1, dims=[2, 0])
    family.case("swapaxes", "middle", lambda x, a, b: torch.swapaxes(x, a, b), [cube], a=0, b=-1)
    signed = torch.tensor([2.0, 0.0, -1.5, 0.5], dtype=torch.float64)
    for name, columns, increasing in (("square", 4, False), ("rising", 3, True), ("wide", 6, False), ("one", 1, False), ("none", 0, True)):
        family.case("vander", name, powers, [signed], forward_only=columns < 2, columns=columns, increasing=increasing)
