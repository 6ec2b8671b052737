"""Convolutions of 1 to 3 dimensions, their transposes, unfold and fold: x, weight, then optionally a bias."""

import torch
import torch.nn.functional as F

FUNCTIONS = {
    "conv1d": F.conv1d,
    "conv2d": F.conv2d,
    "conv3d": F.conv3d,
    "conv_transpose1d": F.conv_transpose1d,
    "conv_transpose2d": F.conv_transpose2d,
    "conv_transpose3d": F.conv_transpose3d,
}


def record(family):
    def case(op, name, x, weight, bias=False, channels=None, **arguments):
        inputs = [family.normal(*x), family.normal(*weight)]
        if bias:
            inputs.append(family.normal(channels or weight[0]))

        def function(*tensors, **options):
            options = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
            return FUNCTIONS[op](*tensors, **options)

        family.case(op, name, function, inputs, **arguments)

    plain = dict(stride=[1], padding=[0], dilation=[1], groups=1)
    case("conv1d", "plain", (2, 3, 7), (4, 3, 3), **plain)
    case("conv1d", "bias", (2, 2, 5), (3, 2, 2), bias=True, **plain)
    case("conv1d", "strided", (1, 2, 8), (2, 2, 3), bias=True, **{**plain, "stride": [2], "padding": [1]})
    case("conv1d", "dilated_groups", (2, 4, 9), (2, 2, 3), **{**plain, "dilation": [3], "groups": 2, "padding": [2]})
    case("conv1d", "one_image", (2, 6), (3, 2, 3), bias=True, **plain)
    case("conv1d", "same_even", (1, 2, 5), (2, 2, 4), **{**plain, "padding": "same"})

    plain = dict(stride=[1, 1], padding=[0, 0], dilation=[1, 1], groups=1)
    case("conv2d", "plain", (2, 2, 4, 5), (3, 2, 3, 2), **plain)
    case("conv2d", "bias", (1, 2, 4, 4), (2, 2, 2, 2), bias=True, **plain)
    case("conv2d", "padded", (2, 3, 6, 5), (4, 3, 3, 3), bias=True, **{**plain, "padding": [1, 1]})
    case("conv2d", "strided", (2, 2, 7, 6), (3, 2, 3, 3), bias=True, **{**plain, "stride": [2, 3], "padding": [2, 1]})
    case("conv2d", "dilated", (1, 2, 6, 7), (2, 2, 2, 3), **{**plain, "dilation": [3, 2], "padding": [1, 2]})
    case("conv2d", "groups", (2, 4, 4, 4), (6, 2, 3, 3), bias=True, **{**plain, "groups": 2, "padding": [1, 1]})
    case("conv2d", "depthwise", (2, 3, 4, 4), (3, 1, 2, 2), bias=True, **{**plain, "groups": 3})
    case("conv2d", "depthwise_multiplier", (1, 2, 4, 4), (4, 1, 3, 3), **{**plain, "groups": 2, "padding": [1, 1]})
    case("conv2d", "kernel_one", (2, 3, 3, 4), (5, 3, 1, 1), bias=True, **plain)
    case("conv2d", "kernel_one_strided", (1, 3, 5, 4), (2, 3, 1, 1), **{**plain, "stride": [2, 2]})
    case("conv2d", "whole_image", (2, 2, 3, 3), (4, 2, 3, 3), bias=True, **plain)
    case("conv2d", "one_image", (2, 4, 4), (3, 2, 3, 3), bias=True, **plain)
    case("conv2d", "batch_0", (0, 2, 4, 4), (3, 2, 3, 3), bias=True, **plain)
    case("conv2d", "same", (1, 2, 4, 5), (2, 2, 3, 2), bias=True, **{**plain, "padding": "same", "dilation": [1, 3]})
    case("conv2d", "valid", (1, 2, 4, 5), (2, 2, 3, 2), **{**plain, "padding": "valid"})
    case("conv2d", "more_padding_than_kernel", (1, 1, 2, 2), (1, 1, 2, 2), **{**plain, "padding": [3, 3]})
    case("conv2d", "rows_left_over", (1, 1, 6, 8), (1, 1, 2, 3), **{**plain, "stride": [4, 4]})
    case("conv2d", "wide", (2, 16, 9, 9), (24, 16, 3, 3), bias=True, **{**plain, "padding": [1, 1]})

    plain = dict(stride=[1, 1, 1], padding=[0, 0, 0], dilation=[1, 1, 1], groups=1)
    case("conv3d", "plain", (1, 2, 3, 4, 3), (2, 2, 2, 2, 2), bias=True, **plain)
    case(
        "conv3d",
        "strided",
        (2, 2, 4, 5, 4),
        (3, 2, 2, 3, 2),
        **{**plain, "stride": [1, 2, 3], "padding": [1, 0, 2], "dilation": [2, 1, 1]},
    )
    case("conv3d", "groups", (1, 2, 3, 3, 3), (2, 1, 2, 2, 2), bias=True, **{**plain, "groups": 2})
    case("conv3d", "one_image", (1, 3, 3, 3), (2, 1, 2, 2, 3), **plain)

    plain = dict(stride=[1], padding=[0], output_padding=[0], groups=1, dilation=[1])
    case("conv_transpose1d", "plain", (2, 3, 4), (3, 2, 3), bias=True, channels=2, **plain)
    case("conv_transpose1d", "strided", (1, 2, 4), (2, 3, 3), **{**plain, "stride": [3], "output_padding": [2]})
    case("conv_transpose1d", "dilated", (1, 2, 4), (2, 2, 3), **{**plain, "dilation": [2], "output_padding": [1]})
    case("conv_transpose1d", "one_image", (2, 4), (2, 3, 2), bias=True, channels=3, **plain)

    plain = dict(stride=[1, 1], padding=[0, 0], output_padding=[0, 0], groups=1, dilation=[1, 1])
    case("conv_transpose2d", "plain", (1, 2, 3, 3), (2, 2, 2, 3), bias=True, channels=2, **plain)
    case(
        "conv_transpose2d",
        "strided",
        (2, 2, 3, 3),
        (2, 3, 3, 3),
        bias=True,
        channels=3,
        **{**plain, "stride": [2, 3], "padding": [1, 1], "output_padding": [1, 2]},
    )
    case(
        "conv_transpose2d",
        "groups",
        (1, 4, 3, 2),
        (4, 2, 2, 2),
        bias=True,
        channels=4,
        **{**plain, "groups": 2, "dilation": [2, 1]},
    )
    case("conv_transpose2d", "batch_0", (0, 2, 3, 3), (2, 3, 2, 2), bias=True, channels=3, **plain)
    case("conv_transpose2d", "one_image", (2, 3, 3), (2, 1, 2, 2), **plain)

    plain = dict(stride=[1, 1, 1], padding=[0, 0, 0], output_padding=[0, 0, 0], groups=1, dilation=[1, 1, 1])
    case("conv_transpose3d", "plain", (1, 2, 2, 2, 3), (2, 1, 2, 2, 2), bias=True, channels=1, **plain)
    case(
        "conv_transpose3d",
        "strided",
        (1, 2, 2, 3, 2),
        (2, 2, 2, 2, 3),
        **{**plain, "stride": [2, 1, 2], "padding": [1, 0, 1], "output_padding": [1, 0, 1]},
    )

    windows = dict(kernel_size=[2, 2], dilation=[1, 1], padding=[0, 0], stride=[1, 1])
    family.case("unfold", "plain", F.unfold, [family.normal(2, 2, 3, 4)], **windows)
    strided = dict(kernel_size=[3, 2], dilation=[1, 2], padding=[1, 2], stride=[2, 3])
    family.case("unfold", "strided", F.unfold, [family.normal(1, 2, 5, 6)], **strided)
    family.case("unfold", "one_image", F.unfold, [family.normal(2, 3, 4)], **windows)
    family.case("fold", "plain", F.fold, [family.normal(2, 8, 6)], output_size=[3, 4], **windows)
    family.case("fold", "strided", F.fold, [family.normal(1, 12, 9)], output_size=[5, 6], **strided)
    family.case("fold", "one_image", F.fold, [family.normal(8, 6)], output_size=[3, 4], **windows)

    # Few enough elements for finite differences of second derivatives.
    plain = dict(stride=[1, 1], padding=[0, 0], dilation=[1, 1], groups=1)
    case("conv2d", "small", (1, 2, 3, 2), (1, 2, 2, 2), bias=True, **{**plain, "stride": [2, 1], "padding": [1, 0]})
    case("conv2d", "small_groups", (2, 2, 3, 2), (2, 1, 2, 1), **{**plain, "groups": 2, "dilation": [2, 1]})
    case("conv2d", "small_kernel_one", (1, 3, 2, 2), (2, 3, 1, 1), bias=True, **plain)
    plain = dict(stride=[1, 1, 1], padding=[0, 0, 0], dilation=[1, 1, 1], groups=1)
    case("conv3d", "small", (1, 1, 2, 3, 2), (2, 1, 2, 2, 1), bias=True, **{**plain, "stride": [1, 2, 1], "padding": [0, 1, 0]})
    plain = dict(stride=[1, 1], padding=[0, 0], output_padding=[0, 0], groups=1, dilation=[1, 1])
    case(
        "conv_transpose2d", "small_groups", (1, 2, 2, 2), (2, 1, 2, 2), bias=True, channels=2, **{**plain, "groups": 2, "stride": [2, 1]}
    )
    plain = dict(stride=[1, 1, 1], padding=[0, 0, 0], output_padding=[0, 0, 0], groups=1, dilation=[1, 1, 1])
    case("conv_transpose3d", "small", (1, 2, 1, 2, 2), (2, 1, 2, 2, 1), bias=True, channels=1, **{**plain, "stride": [1, 2, 1]})
    family.case("fold", "small", F.fold, [family.normal(1, 4, 4)], output_size=[3, 3], **windows)
