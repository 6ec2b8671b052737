"""scaled_dot_product_attention: q (B, H, T, D), k and v (B, H, S, D), and a mask (T, S) where there is one."""

import torch
import torch.nn.functional as F


def attention(q, k, v, mask=None, *, causal, scale):
    # PyTorch's MATH kernel: the fused ones do not take every case and round differently.
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale)


def distances(q, k, first_positions):
    """The positions of the queries less those of the keys, (T, S) or (B, 1, T, S)."""
    queries, keys = q.size(2), k.size(2)
    first = torch.tensor(first_positions or [keys - queries]).view(-1, 1, 1, 1)
    distance = first + torch.arange(queries).view(-1, 1) - torch.arange(keys)
    return distance if first_positions else distance[0, 0]


def record(family):
    def heads(*shape):
        return [family.normal(*shape) for _ in range(3)]

    family.case("scaled_dot_product_attention", "plain", attention, heads(2, 2, 4, 3), causal=False, scale=None)
    family.case("scaled_dot_product_attention", "causal", attention, heads(2, 2, 5, 4), causal=True, scale=None)
    family.case("scaled_dot_product_attention", "causal_long", attention, heads(1, 1, 37, 8), causal=True, scale=None)
    family.case("scaled_dot_product_attention", "scale", attention, heads(1, 2, 4, 3), causal=True, scale=0.25)
    family.case("scaled_dot_product_attention", "one_token", attention, heads(1, 2, 1, 3), causal=True, scale=None)
    cross = [family.normal(1, 2, 3, 4), family.normal(1, 2, 5, 4), family.normal(1, 2, 5, 4)]
    family.case("scaled_dot_product_attention", "cross", attention, cross, causal=False, scale=None)
    allowed = torch.tensor([[1, 0, 0, 1], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]).bool()
    family.case(
        "scaled_dot_product_attention", "mask", attention, heads(2, 2, 4, 3) + [allowed], causal=False, scale=None
    )
    family.case(
        "scaled_dot_product_attention",
        "additive_mask",
        attention,
        heads(2, 2, 4, 3) + [family.normal(4, 4)],
        constant=(3,),
        causal=False,
        scale=None,
    )
    # Key padding: (B, 1, 1, S), the same for all queries of a sample; longer than the kernels' blocks.
    padding = (torch.arange(150) < torch.tensor([[97], [150]])).view(2, 1, 1, 150)
    padded = [family.normal(2, 1, 20, 6), family.normal(2, 1, 150, 6), family.normal(2, 1, 150, 6)]
    family.case("scaled_dot_product_attention", "key_padding", attention, padded + [padding], causal=False, scale=None)
    family.case(
        "scaled_dot_product_attention",
        "additive_per_head",
        attention,
        heads(1, 2, 19, 5) + [family.normal(1, 2, 1, 19)],
        constant=(3,),
        causal=False,
        scale=0.5,
    )
    hides_one_query = torch.ones(4, 4).bool()
    hides_one_query[2] = False
    family.case(
        "scaled_dot_product_attention",
        "sees_nothing",
        attention,
        heads(1, 1, 4, 3) + [hides_one_query],
        forward_only=True,
        causal=False,
        scale=None,
    )
    large = heads(1, 1, 4, 4)
    large[0] = large[0] * 64
    family.case("scaled_dot_product_attention", "huge", attention, large, forward_only=True, causal=True, scale=None)

    # q, k and v in one tensor: qkv (B, T, 3 C), heads side by side in each third; the result is (B, T, C).
    def self_attention(qkv, heads, causal):
        B, T, width = qkv.shape
        C = width // 3
        q, k, v = (third.view(B, T, heads, C // heads).transpose(1, 2) for third in qkv.split(C, dim=2))
        return attention(q, k, v, causal=causal, scale=None).transpose(1, 2).reshape(B, T, C)

    family.case("scaled_dot_product_attention", "blocks", attention, heads(1, 1, 140, 9), causal=True, scale=None)
    family.case("self_attention", "causal", self_attention, [family.normal(2, 3, 12)], heads=2, causal=True)
    family.case("self_attention", "all", self_attention, [family.normal(1, 4, 6)], heads=1, causal=False)
    family.case("self_attention", "long", self_attention, [family.normal(1, 37, 24)], heads=2, causal=True)

    # Grouped heads, windows, ALiBi and positions of their own: for PyTorch repeated heads and a mask.
    def variant(q, k, v, *, causal, window, slopes, first_positions):
        distance = distances(q, k, first_positions)
        hidden = torch.zeros_like(distance).bool()
        if causal:
            hidden |= distance < 0
        if window:
            hidden |= distance.abs() >= window
        bias = torch.zeros(distance.shape, dtype=torch.float64).masked_fill(hidden, float("-inf"))
        if slopes:
            bias = bias - torch.tensor(slopes, dtype=torch.float64).view(-1, 1, 1) * distance.abs()
        group = q.size(1) // k.size(1)
        k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
        return attention(q, k, v, bias, causal=False, scale=None)

    def variant_weights(q, k, **arguments):
        return variant(q, k, torch.eye(k.size(2), dtype=torch.float64).expand(*k.shape[:3], -1), **arguments)

    plain = dict(causal=True, window=0, slopes=[], first_positions=[])
    variants = {
        "grouped": (2, 4, 2, 5, 5, plain),
        "multi_query": (1, 3, 1, 4, 6, plain | dict(causal=False)),
        "window": (2, 2, 2, 9, 9, plain | dict(window=3)),
        "window_long": (1, 2, 1, 150, 150, plain | dict(window=40)),
        "window_both_sides": (1, 2, 2, 7, 9, plain | dict(causal=False, window=3)),
        "alibi": (2, 4, 4, 5, 5, plain | dict(slopes=[0.5, 0.25, 0.125, 0.0625])),
        "alibi_window": (1, 2, 1, 70, 70, plain | dict(window=33, slopes=[0.25, 0.125])),
        "alibi_both_sides": (1, 2, 2, 4, 6, plain | dict(causal=False, slopes=[0.5, 0.25])),
        "first_positions": (3, 2, 1, 2, 7, plain | dict(first_positions=[5, 0, 2])),
        "first_positions_window": (2, 2, 2, 3, 50, plain | dict(window=4, first_positions=[47, 20], slopes=[0.5, 0.25])),
        "one_key": (1, 2, 1, 1, 1, plain | dict(window=1)),
    }
    for name, (batch, count, shared, queries, keys, arguments) in variants.items():
        inputs = [family.normal(batch, count, queries, 4)] + [family.normal(batch, shared, keys, 4) for _ in range(2)]
        family.case("attention_variants", name, variant, inputs, **arguments)
        if queries < 50:
            family.case("attention_weights", name, variant_weights, inputs[:2], **arguments)

    def grouped_self_attention(qkv, heads, kv_heads, causal):
        B, T, width = qkv.shape
        D = width // (heads + 2 * kv_heads)
        parts = qkv.split([heads * D, kv_heads * D, kv_heads * D], dim=2)
        q, k, v = (part.reshape(B, T, -1, D).transpose(1, 2) for part in parts)
        k, v = (x.repeat_interleave(heads // kv_heads, dim=1) for x in (k, v))
        return attention(q, k, v, causal=causal, scale=None).transpose(1, 2).reshape(B, T, heads * D)

    family.case(
        "grouped_self_attention", "causal", grouped_self_attention, [family.normal(2, 5, 24)], heads=4, kv_heads=2, causal=True
    )

    # A query that sees nothing has a result of 0, whichever form computes it: also where second derivatives are taken,
    # and where the mask has a gradient.
    name = "scaled_dot_product_attention"
    allowed = torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 1]]).bool()
    family.case(name, "sees_nothing_twice", attention, heads(1, 1, 3, 3) + [allowed], causal=False, scale=None)
    added = family.normal(3, 3).masked_fill(~allowed, float("-inf"))
    family.case(name, "sees_nothing_mask", attention, heads(1, 1, 3, 3) + [added], causal=False, scale=None)

    # Few enough elements for finite differences of second derivatives.
    for name, batch, count, shared, queries, keys, arguments in [
        ("grouped", 1, 2, 1, 3, 3, plain),
        ("window", 1, 1, 1, 4, 4, plain | dict(window=2)),
        ("alibi", 1, 2, 1, 2, 3, plain | dict(slopes=[0.5, 0.25])),
        ("positions", 2, 1, 1, 2, 3, plain | dict(first_positions=[1, 0])),
        ("sees_nothing", 1, 1, 1, 4, 2, plain),
    ]:
        inputs = [family.normal(batch, count, queries, 2)] + [family.normal(batch, shared, keys, 2) for _ in range(2)]
        family.case("small_attention", name, variant, inputs, **arguments)
        if name != "sees_nothing":
            family.case("small_attention_weights", name, variant_weights, inputs[:2], **arguments)
    family.case(
        "grouped_self_attention", "small", grouped_self_attention, [family.normal(1, 3, 8)], heads=2, kv_heads=1, causal=True
    )
