"""Sums of products by names of dimensions."""

import torch

# name, equation, shapes.
CASES = [
    ("product", "ij,jk->ik", [(2, 3), (3, 4)]),
    ("transposed", "kj,ij->ki", [(2, 3), (4, 3)]),
    ("order_of_letters", "zay,ybx->bxaz", [(2, 3, 4), (4, 2, 3)]),
    ("implied", "cb,ac", [(3, 4), (2, 3)]),
    ("ellipsis", "...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
    ("ellipsis_behind", "i...,j...->...ij", [(2, 3, 4), (5, 3, 1)]),
    ("ellipsis_summed", "...i,i->", [(2, 3, 4), (4,)]),
    ("diagonal", "bii->ib", [(2, 3, 3)]),
    ("trace", "ii", [(3, 3)]),
    ("diagonal_of_both", "iij,jjk->ik", [(2, 2, 3), (3, 3, 2)]),
    ("chain", "ab,bc,cd,de->ae", [(5, 2), (2, 6), (6, 1), (1, 4)]),
    ("three_share", "bi,bj,bk->bijk", [(2, 3), (2, 2), (2, 4)]),
    ("star", "ai,bi,ci->abc", [(2, 3), (3, 3), (2, 3)]),
    ("scalar", ",ij->ij", [(), (2, 3)]),
    ("summed_alone", "ij,kl->jk", [(2, 3), (2, 4)]),
    ("no_elements", "ij,jk->ik", [(2, 0), (0, 3)]),
]


def record(family):
    for name, equation, shapes in CASES:
        operands = [family.normal(*shape) for shape in shapes]
        family.case("einsum", name, lambda *x, equation: torch.einsum(equation, *x), operands, equation=equation)
