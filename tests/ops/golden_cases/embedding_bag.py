"""embedding_bag: the weight (V, C), the ids (N) or (B, L), then the offsets and the weights of samples where a case has
them."""

import torch
import torch.nn.functional as F


def embedding_bag(weight, ids, *rest, mode, include_last_offset=False, padding_idx=None, offsets=True, factors=False):
    rest = list(rest)
    return F.embedding_bag(
        ids,
        weight,
        rest.pop(0) if offsets else None,
        mode=mode,
        per_sample_weights=rest.pop(0) if factors else None,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )


def record(family):
    ids, offsets = torch.tensor([3, 0, 3, 1, 4, 2]), torch.tensor([0, 2, 2, 5])
    for mode in ("sum", "mean", "max"):
        table = family.distinct(5, 3) if mode == "max" else family.normal(5, 3)

        def case(name, *inputs, **arguments):
            family.case("embedding_bag", f"{mode}_{name}", embedding_bag, list(inputs), mode=mode, **arguments)

        case("offsets", table, ids, offsets)
        case("matrix", table, ids.reshape(2, 3), offsets=False)
        case("last_offset", table, ids, torch.tensor([0, 4, 6]), include_last_offset=True)
        case("padding", table, ids, offsets, padding_idx=3)
    factors = family.normal(6)
    common = dict(mode="sum", factors=True)
    family.case("embedding_bag", "weighted", embedding_bag, [family.normal(5, 3), ids, offsets, factors], **common)
    family.case(
        "embedding_bag",
        "weighted_padding",
        embedding_bag,
        [family.normal(5, 3), ids.reshape(3, 2), factors.reshape(3, 2)],
        offsets=False,
        padding_idx=4,
        **common,
    )
