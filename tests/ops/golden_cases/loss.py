"""Losses. cross_entropy takes logits (..., classes), targets (...) and optional class weights."""

import torch
import torch.nn.functional as F


def cross_entropy(logits, targets, weight=None, *, ignore_index, label_smoothing, reduction):
    flat = logits.reshape(-1, logits.shape[-1])
    loss = F.cross_entropy(
        flat,
        targets.reshape(-1),
        weight,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        reduction=reduction,
    )
    return loss.reshape(targets.shape) if reduction == "none" else loss


def record(family):
    targets = torch.tensor([0, 4, 2, 2, 1, 3])
    ignored = torch.tensor([0, -100, 2, 2, -100, 3])
    weights = torch.tensor([0.5, 1.0, 2.0, 0.25, 1.5], dtype=torch.float64)
    for reduction in ("mean", "sum", "none"):
        for case, ids, weight, index, smoothing in [
            ("plain", targets, None, -100, 0.0),
            ("ignore", ignored, None, -100, 0.0),
            ("ignore_class", targets, None, 2, 0.0),
            ("weights", targets, weights, -100, 0.0),
            ("weights_ignore", ignored, weights, -100, 0.0),
            ("smoothing", targets, None, -100, 0.125),
            ("smoothing_ignore", ignored, None, -100, 0.125),
            ("everything", ignored, weights, -100, 0.125),
        ]:
            family.case(
                "cross_entropy",
                f"{case}_{reduction}",
                cross_entropy,
                [family.normal(6, 5), ids] + ([] if weight is None else [weight]),
                constant=(2,),
                ignore_index=index,
                label_smoothing=smoothing,
                reduction=reduction,
            )
    settings = dict(ignore_index=-100, label_smoothing=0.0, reduction="mean")
    family.case(
        "cross_entropy", "tokens", cross_entropy, [family.normal(2, 3, 5), family.integers(0, 5, 2, 3)], **settings
    )
    family.case(
        "cross_entropy", "huge", cross_entropy, [family.distinct(3, 5) * 4096, torch.tensor([0, 1, 4])], **settings
    )
    family.case("cross_entropy", "wide", cross_entropy, [family.normal(2, 301), torch.tensor([300, 7])], **settings)

    for reduction in ("mean", "sum", "none"):
        family.case(
            "mse_loss",
            reduction,
            lambda x, y, reduction: F.mse_loss(x, y, reduction=reduction),
            [family.normal(3, 4), family.normal(3, 4)],
            reduction=reduction,
        )
        family.case(
            "bce_with_logits",
            reduction,
            lambda x, y, reduction: F.binary_cross_entropy_with_logits(x, y, reduction=reduction),
            [family.normal(3, 4) * 4, family.uniform(0, 1, 3, 4)],
            constant=(1,),
            reduction=reduction,
        )
    family.case(
        "bce_with_logits",
        "huge",
        lambda x, y, reduction: F.binary_cross_entropy_with_logits(x, y, reduction=reduction),
        [
            torch.tensor([1024.0, -1024.0, 1024.0, -1024.0], dtype=torch.float64),
            torch.tensor([1.0, 0.0, 0.0, 1.0], dtype=torch.float64),
        ],
        constant=(1,),
        reduction="none",
    )

    # A head and its loss: x, the head's weight, targets, then optionally its bias and class weights.
    for case, bias, classes, smoothing, reduction in [
        ("plain", False, False, 0.0, "mean"),
        ("bias", True, False, 0.0, "sum"),
        ("everything", True, True, 0.125, "mean"),
        ("rows", False, True, 0.0, "none"),
    ]:
        inputs = [family.normal(2, 3, 4), family.normal(5, 4), ignored.reshape(2, 3)]
        inputs += [family.normal(5)] if bias else []
        inputs += [weights] if classes else []

        def head_loss(x, head, targets, *rest, bias, **settings):
            logits = F.linear(x, head, rest[0] if bias else None)
            return cross_entropy(logits, targets, *(rest[1:] if bias else rest), **settings)

        family.case(
            "linear_cross_entropy",
            case,
            head_loss,
            inputs,
            constant=(len(inputs) - 1,) if classes else (),
            bias=bias,
            ignore_index=-100,
            label_smoothing=smoothing,
            reduction=reduction,
        )
