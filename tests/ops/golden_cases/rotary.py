"""Rotary positions of x (B, H, T, D), by complex products and by rotating halves."""

import torch


def rotary(x, *, base, dims, interleaved, first_positions):
    B, _, T, D = x.shape
    dims = dims or D
    frequencies = base ** (-torch.arange(0, dims, 2, dtype=torch.float64) / dims)
    first = torch.tensor(first_positions or [0] * B, dtype=torch.float64)
    angles = (first.view(B, 1, 1, 1) + torch.arange(T, dtype=torch.float64).view(T, 1)) * frequencies
    turned, kept = x[..., :dims], x[..., dims:]
    if interleaved:
        pairs = torch.view_as_complex(turned.reshape(*turned.shape[:-1], dims // 2, 2).contiguous())
        turned = torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)
    else:
        first_half, second_half = turned.chunk(2, dim=-1)
        cosines, sines = (torch.cat([f(angles), f(angles)], dim=-1) for f in (torch.cos, torch.sin))
        turned = turned * cosines + torch.cat([-second_half, first_half], dim=-1) * sines
    return torch.cat([turned, kept], dim=-1)


def record(family):
    plain = dict(base=10000.0, dims=0, interleaved=False, first_positions=[])
    family.case("rotary", "halves", rotary, [family.normal(2, 2, 5, 6)], **plain)
    family.case("rotary", "neighbours", rotary, [family.normal(2, 2, 5, 6)], **plain | dict(interleaved=True))
    family.case("rotary", "partial", rotary, [family.normal(1, 2, 4, 10)], **plain | dict(dims=4, base=500.0))
    family.case(
        "rotary", "partial_neighbours", rotary, [family.normal(1, 2, 4, 10)], **plain | dict(dims=6, interleaved=True)
    )
    family.case("rotary", "rows", rotary, [family.normal(3, 1, 2, 32)], **plain | dict(first_positions=[7, 0, 1000]))
    family.case("rotary", "one", rotary, [family.normal(1, 1, 1, 2)], **plain | dict(first_positions=[3]))
    family.case("rotary", "empty", rotary, [family.normal(2, 1, 0, 4)], **plain)
