"""Distances between rows."""

import torch

INFINITY = float("inf")


def record(family):
    norm = lambda p: INFINITY if p < 0 else p  # JSON has no infinity
    for p in (0.0, 1.0, 1.5, 2.0, 3.0, -1.0):
        run = lambda a, b, p: torch.cdist(a, b, norm(p))
        whole = str(norm(p)).replace(".", "_")
        draw = family.normal if p < 0 else family.distinct  # no two largest differences are equal
        inputs = [draw(4, 3), draw(5, 3) + 0.03125]
        family.case("cdist", f"p_{whole}", run, inputs, p=p)
        family.case("cdist", f"p_{whole}_batches", run, [draw(2, 1, 3, 2), draw(3, 4, 2) + 0.03125], p=p)
        family.case("pdist", f"p_{whole}", lambda x, p: torch.nn.functional.pdist(x, norm(p)), [draw(5, 3)], p=p)
    family.case("cdist", "products", lambda a, b, p: torch.cdist(a, b, p), [family.normal(30, 4), family.normal(7, 4)], p=2.0)
    family.case("cdist", "no_rows", lambda a, b, p: torch.cdist(a, b, p), [family.normal(0, 4), family.normal(7, 4)], p=2.0)
    family.case("cdist", "no_columns", lambda a, b, p: torch.cdist(a, b, p), [family.normal(2, 0), family.normal(3, 0)], forward_only=True, p=2.0)
    equal = family.normal(3, 2)
    family.case("cdist_kinks", "equal_rows", lambda a, b, p: torch.cdist(a, b, p), [equal, equal.clone()], p=2.0)
    family.case("pdist", "one_row", lambda x, p: torch.nn.functional.pdist(x, p), [family.normal(1, 3)], p=2.0)
