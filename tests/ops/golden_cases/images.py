"""Batch norm and pooling: inputs are x (N, C, ...), and for batch_norm weight and bias."""

import torch
import torch.nn.functional as F


def batch_norm(x, weight=None, bias=None, *, training, eps, relu=False, running_mean=None, running_var=None):
    def statistic(values):
        return None if values is None else torch.tensor(values, dtype=x.dtype)

    y = F.batch_norm(x, statistic(running_mean), statistic(running_var), weight, bias, training, 0.1, eps)
    return torch.relu(y) if relu else y


def record_batch_norm(family):
    for case, shape in [
        ("rows", (5, 3)),
        ("length", (2, 3, 4)),
        ("planes", (2, 2, 3, 2)),
        ("volumes", (2, 2, 2, 1, 2)),
        ("one_channel", (4, 1, 2)),
        ("many_channels", (3, 37)),
        ("long", (2, 3, 9, 7)),
        ("one_sample", (1, 2, 5)),
    ]:
        channels = shape[1]

        def parameters():
            return [family.uniform(0.5, 1.5, channels), family.normal(channels)]

        settings = dict(training=True, eps=1e-5)
        family.case("batch_norm", case, batch_norm, [family.normal(*shape), *parameters()], **settings)
        family.case("batch_norm", f"{case}_plain", batch_norm, [family.normal(*shape)], **settings)
        family.case("batch_norm_relu", case, batch_norm, [family.normal(*shape), *parameters()], relu=True, **settings)
        running = dict(
            running_mean=[0.25 * c for c in range(channels)], running_var=[0.5 + 0.125 * c for c in range(channels)]
        )
        settings = dict(training=False, eps=1e-5, **running)
        family.case("batch_norm", f"{case}_eval", batch_norm, [family.normal(*shape), *parameters()], **settings)
        family.case(
            "batch_norm_relu", f"{case}_eval", batch_norm, [family.normal(*shape), *parameters()], relu=True, **settings
        )
    family.case(
        "batch_norm",
        "large_eps",
        batch_norm,
        [family.normal(3, 2, 2), family.uniform(0.5, 1.5, 2)],
        training=True,
        eps=0.125,
    )
    # A mean much larger than the deviations: a variance computed as E[x^2] - E[x]^2 would lose all digits in f32.
    offset = family.distinct(4, 2, 4) + 1024.0
    family.case("batch_norm", "large_mean_plain", batch_norm, [offset], training=True, eps=1e-5)
    settings = dict(training=False, eps=1e-5, running_mean=[0.0, 1.0], running_var=[1.0, 2.0])
    family.case("batch_norm", "empty_eval", batch_norm, [family.normal(0, 2, 3), family.normal(2)], **settings)


WINDOWS = {
    1: [
        ("plain", (2, 2, 7), dict(kernel_size=[2])),
        ("stride_padding", (2, 2, 8), dict(kernel_size=[3], stride=[2], padding=[1])),
        ("ceil", (1, 2, 8), dict(kernel_size=[3], stride=[2], padding=[0], ceil_mode=True)),
        ("ceil_padding", (3, 10), dict(kernel_size=[4], stride=[3], padding=[2], ceil_mode=True)),
        ("whole", (2, 1, 5), dict(kernel_size=[5])),
    ],
    2: [
        ("plain", (2, 2, 4, 4), dict(kernel_size=[2, 2])),
        ("stride_padding", (1, 2, 5, 6), dict(kernel_size=[3, 3], stride=[2, 2], padding=[1, 1])),
        ("uneven", (1, 2, 4, 6), dict(kernel_size=[2, 3], stride=[1, 2], padding=[0, 1])),
        ("ceil", (2, 1, 6, 5), dict(kernel_size=[3, 2], stride=[2, 2], padding=[1, 0], ceil_mode=True)),
        ("unbatched", (2, 5, 4), dict(kernel_size=[2, 2], stride=[2, 1])),
        ("no_samples", (0, 2, 4, 4), dict(kernel_size=[2, 2])),
    ],
    3: [
        ("plain", (1, 2, 2, 4, 2), dict(kernel_size=[2, 2, 2])),
        ("stride_padding", (1, 1, 3, 4, 3), dict(kernel_size=[2, 3, 3], stride=[1, 2, 1], padding=[1, 1, 0])),
        ("ceil", (2, 3, 2, 4), dict(kernel_size=[2, 2, 3], stride=[2, 2, 2], padding=[0, 1, 1], ceil_mode=True)),
    ],
}
DILATED = {
    1: ((2, 9), dict(kernel_size=[3], stride=[2], padding=[1], dilation=[3])),
    2: ((1, 2, 7, 6), dict(kernel_size=[2, 3], stride=[2, 1], padding=[1, 1], dilation=[3, 2], ceil_mode=True)),
    3: ((1, 4, 5, 3), dict(kernel_size=[2, 2, 2], stride=[1, 1, 1], padding=[0, 0, 0], dilation=[2, 3, 1])),
}
ADAPTIVE = {
    1: [((2, 2, 7), [3]), ((1, 5), [5]), ((2, 1, 3), [5])],
    2: [((2, 1, 5, 7), [3, 2]), ((2, 4, 4), [1, 1]), ((1, 2, 5, 3), [-1, 2])],
    3: [((1, 2, 3, 4, 5), [2, 3, 2]), ((1, 4, 3, 2), [1, -1, 1])],
}


def record_pooling(family, dims):
    max_pool = getattr(F, f"max_pool{dims}d")
    avg_pool = getattr(F, f"avg_pool{dims}d")
    cases = WINDOWS[dims] + [("dilated", *DILATED[dims])]
    for case, shape, window in cases:
        family.case(f"max_pool{dims}d", case, max_pool, [family.distinct(*shape)], **window)
        family.case(
            f"max_pool{dims}d_with_indices",
            case,
            lambda x, **window: max_pool(x, return_indices=True, **window),
            [family.distinct(*shape)],
            **window,
        )
    for case, shape, window in WINDOWS[dims]:
        for suffix, options in [("", {}), ("_without_pad", dict(count_include_pad=False))] + (
            [] if dims == 1 else [("_divisor", dict(divisor_override=3))]
        ):
            family.case(f"avg_pool{dims}d", case + suffix, avg_pool, [family.normal(*shape)], **window, **options)
    for shape, size in ADAPTIVE[dims]:
        case = "_to_".join("x".join(str(n) for n in list(s)) for s in (shape, size))
        output = [None if n == -1 else n for n in size]
        output = output[0] if dims == 1 else output
        for name, make in [("max", family.distinct), ("avg", family.normal)]:
            function = getattr(F, f"adaptive_{name}_pool{dims}d")
            family.case(
                f"adaptive_{name}_pool{dims}d",
                case,
                lambda x, output_size, function=function: function(x, output),
                [make(*shape)],
                output_size=size,
            )
        function = getattr(F, f"adaptive_max_pool{dims}d")
        family.case(
            f"adaptive_max_pool{dims}d_with_indices",
            case,
            lambda x, output_size, function=function: function(x, output, return_indices=True),
            [family.distinct(*shape)],
            output_size=size,
        )
    record_powers_and_unpooling(family, dims)


def record_powers_and_unpooling(family, dims):
    unpool = getattr(F, f"max_unpool{dims}d")

    def lp_pool(x, norm_type, kernel_size, **window):
        return getattr(F, f"lp_pool{dims}d")(x, norm_type, kernel_size[0] if dims == 1 else kernel_size, **window)

    shape = (1, 2) + (5, 4, 3)[:dims]
    for case, p, window in [
        ("two", 2.0, dict(kernel_size=[2] * dims)),
        ("three_ceil", 3.0, dict(kernel_size=[2] * dims, stride=[2] * dims, ceil_mode=True)),
    ]:
        family.case(f"lp_pool{dims}d", case, lp_pool, [family.uniform(0.5, 2.0, *shape)], norm_type=p, **window)
    x = family.distinct(2, 2, *(6, 4, 4)[:dims])
    _, indices = getattr(F, f"max_pool{dims}d")(x, 2, 2, return_indices=True)
    pooled = family.normal(*indices.shape)
    family.case(f"max_unpool{dims}d", "plain", unpool, [pooled, indices], kernel_size=[2] * dims)
    x = family.distinct(2, *(5, 3, 3)[:dims])
    _, indices = getattr(F, f"max_pool{dims}d")(x, 2, 2, return_indices=True)
    pooled = family.normal(*indices.shape)
    size = list(x.shape[1:])
    family.case(
        f"max_unpool{dims}d", "output_size", unpool, [pooled, indices], kernel_size=[2] * dims, output_size=size
    )


def record(family):
    record_batch_norm(family)
    for dims in (1, 2, 3):
        record_pooling(family, dims)
    for case, shape in [("planes", (2, 2, 3, 4)), ("length", (1, 3, 5)), ("volumes", (2, 1, 2, 2, 2))]:
        axes = tuple(range(2, len(shape)))
        family.case("global_avg_pool", case, lambda x, axes=axes: x.mean(axes), [family.normal(*shape)])
        family.case("global_max_pool", case, lambda x, axes=axes: x.amax(axes), [family.distinct(*shape)])
    # A window larger than the padded input, which `ceil_mode` cuts off.
    beyond = dict(kernel_size=[4, 3], stride=[2, 3], padding=[0, 1], ceil_mode=True)
    family.case("max_pool2d", "ceil_beyond", F.max_pool2d, [family.distinct(1, 2, 3, 2)], **beyond)
    for count in (True, False):
        name = f"ceil_beyond_{'with' if count else 'without'}_pad"
        family.case("avg_pool2d", name, F.avg_pool2d, [family.normal(2, 3, 2)], count_include_pad=count, **beyond)
    family.case(
        "lp_pool1d",
        "ceil_beyond",
        lambda x, norm_type, kernel_size, stride, ceil_mode: F.lp_pool1d(x, norm_type, kernel_size[0], stride[0], ceil_mode),
        [family.uniform(0.5, 2.0, 1, 2, 3)],
        norm_type=2.0,
        kernel_size=[5],
        stride=[3],
        ceil_mode=True,
    )
