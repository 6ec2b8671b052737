#pragma once

#include <cstdint>

namespace tessera {

/// What computes matrix products on the CPU. Eigen, the reference, takes every dtype; oneDNN takes f32
/// everywhere and bf16 where the processor multiplies it; `packed` are our own kernels, for f32, and for bf16
/// where the processor multiplies it on vectors. Other dtypes go to Eigen, those of 2 bytes through f32.
/// `automatic` takes the fastest by a table of measurements (tensor/cpu/gemm/README.md).
enum class MatmulBackend : uint8_t { automatic, eigen, onednn, packed };

}  // namespace tessera
