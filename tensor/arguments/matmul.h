#pragma once

#include <cstdint>

namespace tessera {

/// The library that computes matrix products on the CPU. Eigen, the reference, takes every dtype; oneDNN
/// takes f32 everywhere and bf16 where the processor multiplies it. `automatic` uses oneDNN where it is
/// built, except for bf16 on vectors (AVX512-BF16 without AMX), where our own kernels are as fast and add up
/// into f32 buffers.
enum class MatmulBackend : uint8_t { automatic, eigen, onednn };

}  // namespace tessera
