"""Convolutions with ReLU, and with a sum before it: x, then for conv_add_relu the added tensor, weight, bias."""

import torch
import torch.nn.functional as F

FUNCTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def record(family):
    def case(ndim, name, x, weight, y, bias=True, stride=1, padding=0, dilation=1, groups=1):
        arguments = {k: [v] * ndim for k, v in dict(stride=stride, padding=padding, dilation=dilation).items()}

        def convolution(x, weight, bias=None, **options):
            options = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
            return FUNCTIONS[ndim](x, weight, bias, **options)

        def relu(*tensors, **options):
            return torch.relu(convolution(*tensors, **options))

        def add_relu(x, added, *tensors, **options):
            return torch.relu(convolution(x, *tensors, **options) + added)

        def inputs(added):
            first = [family.normal(*x)] + ([family.normal(*y)] if added else [])
            return first + [family.normal(*weight)] + ([family.normal(weight[0])] if bias else [])

        family.case(f"conv{ndim}d_relu", name, relu, inputs(False), groups=groups, **arguments)
        family.case(f"conv{ndim}d_add_relu", name, add_relu, inputs(True), groups=groups, **arguments)

    case(1, "strided", (2, 2, 7), (3, 2, 3), (2, 3, 4), stride=2, padding=1)
    case(1, "one_image", (2, 5), (2, 2, 2), (2, 4), bias=False)
    case(2, "padded", (2, 3, 4, 5), (4, 3, 3, 3), (2, 4, 4, 5), padding=1)
    case(2, "plain", (1, 2, 4, 4), (2, 2, 2, 2), (1, 2, 3, 3), bias=False)
    case(2, "groups", (2, 4, 4, 3), (6, 2, 2, 2), (2, 6, 3, 2), groups=2)
    case(2, "dilated", (1, 2, 6, 7), (2, 2, 2, 3), (1, 2, 4, 3), dilation=2)
    case(2, "kernel_one", (2, 3, 3, 4), (5, 3, 1, 1), (2, 5, 3, 4))
    case(2, "one_image", (2, 4, 4), (3, 2, 3, 3), (3, 2, 2))
    case(2, "batch_0", (0, 2, 4, 4), (3, 2, 3, 3), (0, 3, 2, 2))
    case(3, "strided", (1, 2, 3, 4, 3), (2, 2, 2, 2, 2), (1, 2, 2, 3, 2), stride=2, padding=1)
    # Few enough elements for finite differences of second derivatives.
    case(1, "small", (1, 2, 3), (2, 2, 2), (1, 2, 2))
    case(2, "small", (1, 2, 3, 2), (1, 2, 2, 2), (1, 1, 2, 1))
    case(2, "small_groups", (2, 2, 2, 2), (2, 1, 2, 1), (2, 2, 1, 2), bias=False, groups=2)
    case(3, "small", (1, 1, 2, 2, 2), (2, 1, 2, 1, 1), (1, 2, 1, 2, 2))
