"""What a multiprocessor holds of a kernel, and the time below which a card cannot be."""

from typing import NamedTuple

# Of a multiprocessor: threads, blocks, registers, bytes of shared memory; CUDA C++ Programming Guide, table
# "Technical Specifications per Compute Capability".
LIMITS = {
    80: (2048, 32, 65536, 164 * 1024),
    86: (1536, 16, 65536, 100 * 1024),
    89: (1536, 24, 65536, 100 * 1024),
    90: (2048, 32, 65536, 228 * 1024),
}


def occupancy(kernel, threads=256):
    """The share of a multiprocessor's threads that blocks of `threads` threads can be, by the limits of NVIDIA's
    occupancy calculator: registers, shared memory, blocks."""
    most_threads, most_blocks, registers, shared = LIMITS[kernel.arch]
    per_warp = -(-kernel.registers * 32 // 256) * 256  # registers are given out in units of 256
    blocks = min(most_blocks, most_threads // threads, registers // (per_warp * threads // 32))
    if kernel.shared:
        blocks = min(blocks, shared // (kernel.shared + 1024))  # 1 KiB of each block is the system's
    return blocks * threads / most_threads


class Card(NamedTuple):
    """Peak rates, each a second."""
    name: str
    bytes: float
    f32: float  # FLOP/s outside tensor cores
    f64: float
    tensor: float  # f16 and bf16 with sums in f32, dense


# NVIDIA H100 and H200 Tensor Core GPU datasheets, SXM.
CARDS = (Card("H100", 3.35e12, 67e12, 34e12, 989e12), Card("H200", 4.8e12, 67e12, 34e12, 989e12))


class Bound(NamedTuple):
    seconds: float
    by: str  # what takes that long


def bound(card, least_bytes, counts, product_flops):
    """Not faster than this: every byte of an operand moves once, every operation counted runs at the peak rate.
    `product_flops` are those of cuBLASLt's products, which the simulated card does not count."""
    rows = (
        Bound(least_bytes / card.bytes, "memory"),
        Bound(counts["flops_f32"] / card.f32, "f32"),
        Bound(counts["flops_f64"] / card.f64, "f64"),
        Bound((counts["flops_mma"] + product_flops) / card.tensor, "tensor cores"),
    )
    return max(rows)
