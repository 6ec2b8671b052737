"""scaled_dot_product_attention: q (B, H, T, D), k and v (B, H, S, D), and a mask (T, S) where there is one."""

import torch
import torch.nn.functional as F


def attention(q, k, v, mask=None, *, causal, scale):
    # PyTorch's MATH kernel: the fused ones do not take every case and round differently.
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale)


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
