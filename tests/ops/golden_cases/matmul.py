"""Matrix products: vectors, matrices, batches, broadcast batches, transposed operands; linear."""

import torch
import torch.nn.functional as F

SHAPES = [
    ("matrix", (3, 4), (4, 5)),
    ("vector_vector", (4,), (4,)),
    ("vector_matrix", (4,), (4, 3)),
    ("matrix_vector", (3, 4), (4,)),
    ("batch", (2, 3, 4), (2, 4, 2)),
    ("batch_of_two", (2, 2, 3, 4), (2, 2, 4, 2)),
    ("batch_by_matrix", (2, 3, 4), (4, 5)),
    ("matrix_by_batch", (3, 4), (2, 4, 2)),
    ("broadcast", (2, 1, 3, 4), (3, 4, 2)),
    ("batch_by_vector", (2, 3, 4), (4,)),
    ("row_column", (1, 7), (7, 1)),
    ("odd_sizes", (17, 19), (19, 13)),
    ("empty_inner", (2, 0), (0, 3)),
    ("empty_rows", (0, 4), (4, 3)),
    ("empty_batch", (0, 2, 3), (0, 3, 2)),
]


def product(a, b, transpose_a, transpose_b):
    return torch.matmul(a.mT if transpose_a else a, b.mT if transpose_b else b)


def record(family):
    for case, first, second in SHAPES:
        family.case(
            "matmul",
            case,
            product,
            [family.normal(*first), family.normal(*second)],
            transpose_a=False,
            transpose_b=False,
        )
    for case, first, second, ta, tb in [
        ("transposed_first", (4, 3), (4, 5), True, False),
        ("transposed_second", (3, 4), (5, 4), False, True),
        ("transposed_both", (4, 3), (5, 4), True, True),
        ("batch_transposed_first", (2, 4, 3), (2, 4, 5), True, False),
        ("batch_transposed_second", (2, 3, 4), (2, 5, 4), False, True),
        ("broadcast_transposed_second", (2, 2, 3, 4), (2, 1, 5, 4), False, True),
    ]:
        family.case(
            "matmul", case, product, [family.normal(*first), family.normal(*second)], transpose_a=ta, transpose_b=tb
        )
    # linear: inputs are x (..., in), weight (out, in), bias (out).
    family.case("linear", "bias", F.linear, [family.normal(2, 3, 4), family.normal(5, 4), family.normal(5)])
    family.case("linear", "no_bias", F.linear, [family.normal(2, 3, 4), family.normal(5, 4)])
    family.case("linear", "matrix", F.linear, [family.normal(6, 4), family.normal(5, 4), family.normal(5)])
    family.case("linear", "vector", F.linear, [family.normal(4), family.normal(5, 4), family.normal(5)])
    # activation_linear: linear of f(x).
    activations = {
        "gelu": F.gelu,
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "relu": F.relu,
        "silu": F.silu,
    }
    for name, f in activations.items():
        family.case(
            "activation_linear",
            name,
            lambda x, w, b, activation, f=f: F.linear(f(x), w, b),
            [family.normal(2, 3, 4), family.normal(5, 4), family.normal(5)],
            activation=name,
        )
    for case, shape in [("no_bias", (6, 4)), ("vector", (4,))]:
        family.case(
            "activation_linear",
            case,
            lambda x, w, activation: F.linear(F.gelu(x), w),
            [family.normal(*shape), family.normal(5, 4)],
            activation="gelu",
        )
    for case, leading, sizes, bias in [("rows", (3,), (2, 3, 2), True), ("small", (2,), (2, 2, 2), True), ("no_bias", (2, 2), (3, 2, 4), False),
                                       ("vector", (), (2, 3, 2), True), ("no_rows", (0,), (2, 3, 2), True), ("ones", (2,), (1, 1, 1), True)]:
        i, j, o = sizes
        inputs = [family.normal(*leading, i), family.normal(*leading, j), family.normal(o, i, j)]
        family.case("bilinear", case, F.bilinear, inputs + ([family.normal(o)] if bias else []))
