"""torch.linalg. Vectors that are determined up to a sign are given the sign that makes their first element positive;
symmetric and positive definite matrices are made of the input inside of the case, so that any change of the input
keeps them so."""

import torch
from torch import linalg


def eye_like(x):
    return torch.eye(x.shape[-1], dtype=x.dtype)


def definite(x):
    return x @ x.mT + eye_like(x)


def symmetric(x):
    return x + x.mT


def eigh(x, uplo):
    w, v = linalg.eigh(symmetric(x), uplo)
    return w, v * v[..., :1, :].detach().sign()


def svd(x, full_matrices):
    u, s, vh = linalg.svd(x, full_matrices=full_matrices)
    k = s.shape[-1]
    u, vh = u[..., :k], vh[..., :k, :]
    if u.numel() == 0:
        return u, s, vh
    sign = u[..., :1, :].detach().sign()
    return u * sign, s, vh * sign.mT


def lstsq(a, b):
    found = linalg.lstsq(a, b, driver="gelsd")
    return found.solution, found.residuals.detach(), found.rank, found.singular_values.detach()


def slogdet(x):
    sign, logarithm = linalg.slogdet(x)
    return sign.detach(), logarithm


def triangle(l, upper):
    """PyTorch's gradient is not 0 in the other triangle, which is not read."""
    return l.triu() if upper else l.tril()


def cholesky_solve(b, l, upper):
    return torch.cholesky_solve(b, triangle(l, upper), upper=upper)


def cholesky_inverse(l, upper):
    return torch.cholesky_inverse(triangle(l, upper), upper=upper)


def matrix_power(x, n):
    # PyTorch 2.15 changes the inverse in place, and then has no gradient.
    y = linalg.matrix_power(linalg.inv(x) if n < 0 else x, abs(n))
    return y.detach() if n == 0 else y


def cond(x, order):
    # As above.
    if order in ("2", "-2"):
        return linalg.cond(x, matrix_order(order))
    return linalg.matrix_norm(x, matrix_order(order)) * linalg.matrix_norm(linalg.inv(x), matrix_order(order))


def matrix_order(order):
    return float(order) if order.lstrip("-") in ("inf", "1", "2") else order


def record(family):
    def regular(*shape):
        return family.normal(*shape) + 3 * torch.eye(shape[-1], dtype=torch.float64)

    def exact(x):
        return x.to(torch.bfloat16).to(torch.float64)

    squares = {
        "small": exact(regular(3, 3)),
        "four": exact(regular(4, 4)),
        "batch": exact(regular(2, 3, 3)),
        "two_batches": exact(regular(2, 2, 2, 2)),
        "one": exact(regular(1, 1)),
        "empty": torch.zeros(0, 0, dtype=torch.float64),
        "batch_of_none": torch.zeros(0, 3, 3, dtype=torch.float64),
    }
    for case, x in squares.items():
        for upper in (False, True):
            suffix = "_upper" if upper else ""
            family.case("cholesky", case + suffix, lambda x, upper: linalg.cholesky(definite(x), upper=upper), [x], upper=upper)
        family.case("lu_factor", case, lambda x: tuple(linalg.lu_factor(x)), [x])
        family.case("lu", case, lambda x: tuple(linalg.lu(x)), [x])
        family.case("eigh", case, eigh, [x], uplo="L")
        family.case("eigvalsh", case, lambda x: linalg.eigvalsh(symmetric(x)), [x])
        family.case("inv", case, linalg.inv, [x])
        family.case("det", case, linalg.det, [x])
        family.case("slogdet", case, slogdet, [x])
        family.case("logdet", case, lambda x: torch.logdet(definite(x)), [x])
        family.case("matrix_exp", case, linalg.matrix_exp, [exact(x / 4)])
        for n in (-2, 0, 1, 3):
            family.case("matrix_power", f"{case}_{n}", matrix_power, [exact(x / 4)], n=n)
    family.case("eigh", "upper", eigh, [squares["small"]], uplo="U")
    family.case("matrix_exp", "large", linalg.matrix_exp, [squares["four"]])
    singular = torch.tensor([[1.0, 2.0, 0.5], [2.0, 4.0, 1.0], [0.5, -1.0, 3.0]], dtype=torch.float64)
    family.case("det", "singular", linalg.det, [singular], forward_only=True)
    family.case("slogdet", "singular", lambda x: tuple(linalg.slogdet(x)), [singular], forward_only=True)
    family.case("logdet", "negative", lambda x, direct: torch.logdet(x), [-squares["small"]], forward_only=True, direct=True)

    shapes = {
        "tall": (4, 3),
        "wide": (3, 5),
        "square": (3, 3),
        "tall_batch": (2, 3, 2),
        "wide_batch": (2, 2, 3),
        "column": (3, 1),
        "row": (1, 3),
        "one": (1, 1),
        "no_rows": (0, 3),
        "no_columns": (3, 0),
        "batch_of_none": (0, 3, 2),
    }
    for case, shape in shapes.items():
        x = family.normal(*shape)
        family.case("qr", case, lambda x, mode: tuple(linalg.qr(x, mode)), [x], mode="reduced")
        tall = shape[-2] > shape[-1]
        family.case("qr", case + "_complete", lambda x, mode: tuple(linalg.qr(x, mode)), [x], forward_only=tall, mode="complete")
        family.case("qr", case + "_r", lambda x, mode: tuple(linalg.qr(x, mode)), [x], forward_only=True, mode="r")
        for full in (False, True):
            family.case("svd", case + ("_full" if full else ""), svd, [x], forward_only=0 in shape, full_matrices=full)
        family.case("svdvals", case, linalg.svdvals, [x])
        family.case("pinv", case, linalg.pinv, [x], hermitian=False)
        family.case("matrix_rank", case, linalg.matrix_rank, [x], hermitian=False)
    family.case("pinv", "hermitian", lambda x, hermitian: linalg.pinv(symmetric(x), hermitian=hermitian), [squares["small"]], hermitian=True)
    low_rank = family.normal(4, 2) @ family.normal(2, 3)
    family.case("pinv", "low_rank", linalg.pinv, [low_rank], forward_only=True, hermitian=False)
    family.case("matrix_rank", "low_rank", linalg.matrix_rank, [low_rank], hermitian=False)
    family.case("matrix_rank", "hermitian", linalg.matrix_rank, [singular + singular.mT], hermitian=True)

    a, batch = squares["small"], squares["batch"]
    systems = {
        "matrix": (a, family.normal(3, 2)),
        "vector": (a, family.normal(3)),
        "batch": (batch, family.normal(2, 3, 2)),
        "batch_of_vectors": (batch, family.normal(2, 3)),
        "broadcast_a": (a, family.normal(2, 3, 2)),
        "broadcast_b": (batch, family.normal(3, 1)),
        "one": (squares["one"], family.normal(1, 2)),
        "no_columns": (a, torch.zeros(3, 0, dtype=torch.float64)),
        "empty": (squares["empty"], torch.zeros(0, 2, dtype=torch.float64)),
    }
    for case, (left, right) in systems.items():
        family.case("solve", case, lambda a, b, left: linalg.solve(a, b, left=left), [left, right], left=True)
        if "vector" in case:
            continue
        for adjoint in (False, True):
            def lu_solve(a, b, left, adjoint):
                return linalg.lu_solve(*linalg.lu_factor(a), b, left=left, adjoint=adjoint)
            family.case("lu_solve", case + ("_adjoint" if adjoint else ""), lu_solve, [left, right], left=True, adjoint=adjoint)
        for upper in (False, True):
            def triangular(a, b, upper, left, unitriangular):
                return linalg.solve_triangular(a, b, upper=upper, left=left, unitriangular=unitriangular)
            suffix = "_upper" if upper else "_lower"
            family.case("solve_triangular", case + suffix, triangular, [left, right], upper=upper, left=True, unitriangular=False)
            family.case("solve_triangular", case + suffix + "_unit", triangular, [left, right], upper=upper, left=True, unitriangular=True)
            family.case("cholesky_solve", case + suffix, cholesky_solve, [right, left], upper=upper)
    sides = family.normal(2, 3)
    family.case("solve", "right", lambda a, b, left: linalg.solve(a, b, left=left), [a, sides], left=False)
    family.case("solve_triangular", "right", triangular, [a, sides], upper=True, left=False, unitriangular=False)
    family.case("lu_solve", "right", lu_solve, [a, sides], left=False, adjoint=False)
    family.case("lu_solve", "right_adjoint", lu_solve, [a, sides], left=False, adjoint=True)
    family.case("cholesky_inverse", "lower", cholesky_inverse, [a], upper=False)
    family.case("cholesky_inverse", "upper", cholesky_inverse, [a], upper=True)

    family.case("lstsq", "tall", lstsq, [family.normal(4, 2), family.normal(4, 3)])
    family.case("lstsq", "wide", lstsq, [family.normal(2, 4), family.normal(2, 3)])
    family.case("lstsq", "square", lstsq, [a, family.normal(3, 2)])
    family.case("lstsq", "batch", lstsq, [family.normal(2, 4, 2), family.normal(2, 4, 1)])

    matrix = family.normal(3, 4)
    for order in ("fro", "nuc", "inf", "-inf", "1", "-1", "2", "-2"):
        for case, x, dims, keepdim in [("matrix", matrix, (-2, -1), False), ("kept", family.normal(2, 3, 2), (0, 2), True)]:
            family.case("matrix_norm", f"{case}_{order}", lambda x, order, dims, keepdim: linalg.matrix_norm(x, matrix_order(order), dims, keepdim), [x], order=order, dims=dims, keepdim=keepdim)
        family.case("cond", order, cond, [a], order=order)
    family.case("cond", "default", lambda x: linalg.cond(x), [matrix])
    for order in (2.0, 1.0, 3.0, -2.0, float("inf"), float("-inf")):
        family.case("vector_norm", f"all_{order:g}", lambda x, order: linalg.vector_norm(x, float(order)), [matrix], order=f"{order:g}")
    family.case("vector_norm", "zero", lambda x, order: linalg.vector_norm(x, float(order)), [matrix], forward_only=True, order="0")
    family.case("norm", "default", lambda x: linalg.norm(x), [family.normal(2, 3, 2)])
    family.case("norm", "matrix", lambda x: linalg.norm(x, 1), [matrix])
    family.case("norm", "vector", lambda x: linalg.norm(x, 3), [family.normal(4)])

    family.case("multi_dot", "four", lambda *m: linalg.multi_dot(m), [family.normal(2, 3), family.normal(3, 4), family.normal(4, 1), family.normal(1, 3)])
    family.case("multi_dot", "vectors", lambda *m: linalg.multi_dot(m), [family.normal(3), family.normal(3, 2), family.normal(2)])
    family.case("tensorsolve", "matrix", linalg.tensorsolve, [exact(regular(6, 6)).reshape(2, 3, 6), family.normal(2, 3)])
    family.case("tensorinv", "two", lambda x: linalg.tensorinv(x, ind=2), [exact(regular(4, 4)).reshape(2, 2, 4)])
    family.case("cross", "last", lambda a, b, dim: linalg.cross(a, b, dim=dim), [family.normal(2, 3), family.normal(2, 3)], dim=-1)
    family.case("cross", "first", lambda a, b, dim: linalg.cross(a, b, dim=dim), [family.normal(3, 2), family.normal(3, 1)], dim=0)
    family.case("vecdot", "last", lambda a, b, dim: linalg.vecdot(a, b, dim=dim), [family.normal(2, 3), family.normal(2, 3)], dim=-1)
    family.case("vander", "square", lambda x: linalg.vander(x), [family.normal(2, 3)])
    for count in (2, 5):
        family.case("vander", f"n{count}", lambda x, n: linalg.vander(x, N=n), [family.normal(3)], n=count)
