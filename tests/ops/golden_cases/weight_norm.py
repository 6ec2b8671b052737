"""weight_norm and spectral_norm."""

import torch


def record(family):
    for case, shape, dim in [("rows", (3, 4), 0), ("columns", (3, 4), 1), ("kernels", (2, 3, 2), 0)]:
        extents = [n if i == dim else 1 for i, n in enumerate(shape)]
        family.case(
            "weight_norm",
            case,
            lambda v, g, dim: torch._weight_norm(v, g, dim),
            [family.normal(*shape), family.uniform(0.5, 2.0, *extents)],
            dim=dim,
        )
    family.case(
        "weight_norm",
        "whole",
        lambda v, g: v * (g / v.norm()),
        [family.normal(3, 4), family.uniform(0.5, 2.0, 1, 1)],
    )
    for case, shape in [("matrix", (3, 4)), ("kernels", (2, 3, 2))]:
        rows, columns = shape[0], torch.Size(shape[1:]).numel()
        family.case(
            "spectral_norm",
            case,
            lambda w, u, v: w / torch.vdot(u, torch.mv(w.flatten(1), v)),
            [family.normal(*shape), family.uniform(0.25, 1.0, rows), family.uniform(0.25, 1.0, columns)],
            constant=(1, 2),
        )
    family.case(
        "spectral_norm",
        "columns",
        lambda w, u, v, dim: w / torch.vdot(u, torch.mv(w.transpose(0, dim).flatten(1), v)),
        [family.normal(2, 3, 2), family.uniform(0.25, 1.0, 3), family.uniform(0.25, 1.0, 4)],
        constant=(1, 2),
        dim=1,
    )
