"""layer_norm and rms_norm: inputs are x, then optionally the weight and the bias."""

import torch.nn.functional as F


def layer_norm(x, weight=None, bias=None, *, axes, eps):
    return F.layer_norm(x, x.shape[-axes:], weight, bias, eps)


def rms_norm(x, weight=None, *, axes, eps):
    return F.rms_norm(x, x.shape[-axes:], weight, eps)


def record(family):
    # axes: the number of trailing axes that are normalized together
    for case, shape, axes, eps in [
        ("last", (3, 5), 1, 1e-5),
        ("tokens", (2, 3, 8), 1, 1e-5),
        ("two_axes", (2, 3, 4), 2, 1e-5),
        ("large_eps", (3, 4), 1, 0.125),
        ("long", (2, 301), 1, 1e-5),
        ("empty", (0, 4), 1, 1e-5),
    ]:
        inner = shape[-axes:]
        settings = dict(axes=axes, eps=eps)
        family.case(
            "layer_norm",
            case,
            layer_norm,
            [family.normal(*shape), family.uniform(0.5, 1.5, *inner), family.normal(*inner)],
            **settings,
        )
        family.case(
            "layer_norm",
            f"{case}_no_bias",
            layer_norm,
            [family.normal(*shape), family.uniform(0.5, 1.5, *inner)],
            **settings,
        )
        family.case("layer_norm", f"{case}_plain", layer_norm, [family.normal(*shape)], **settings)
        family.case("rms_norm", case, rms_norm, [family.normal(*shape), family.uniform(0.5, 1.5, *inner)], **settings)
        family.case("rms_norm", f"{case}_plain", rms_norm, [family.normal(*shape)], **settings)
    # A mean much larger than the deviations: a variance computed as E[x^2] - E[x]^2 would lose all digits in f32.
    offset = family.distinct(3, 8) + 1024.0
    family.case("layer_norm", "large_mean_plain", layer_norm, [offset], axes=1, eps=1e-5)

    # A residual sum and its norm; without a delta the sum is x itself.
    for case, shape, with_bias in [("tokens", (2, 3, 8), True), ("no_bias", (2, 2, 5), False), ("empty", (0, 4), True)]:
        inner = shape[-1:]
        parameters = [family.uniform(0.5, 1.5, *inner)] + ([family.normal(*inner)] if with_bias else [])
        family.case(
            "add_layer_norm",
            case,
            lambda x, delta, *rest, eps: (x + delta, layer_norm(x + delta, *rest, axes=1, eps=eps)),
            [family.normal(*shape), family.normal(*shape), *parameters],
            eps=1e-5,
        )
        family.case(
            "stream_layer_norm",
            case,
            lambda x, *rest, eps: (x * 1, layer_norm(x, *rest, axes=1, eps=eps)),
            [family.normal(*shape), *parameters],
            eps=1e-5,
        )
    family.case(
        "add_rms_norm",
        "tokens",
        lambda x, delta, weight, eps: (x + delta, rms_norm(x + delta, weight, axes=1, eps=eps)),
        [family.normal(2, 3, 8), family.normal(2, 3, 8), family.uniform(0.5, 1.5, 8)],
        eps=1e-6,
    )
