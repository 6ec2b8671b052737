#pragma once

#include <cstdint>

namespace tessera {

/// The function of the gate in a gated linear unit: `sigmoid` for GLU (Dauphin et al. 2017); `silu`, `gelu`,
/// `gelu_tanh` and `relu` for SwiGLU, GEGLU and ReGLU (Shazeer 2020).
enum class Gate : uint8_t { sigmoid, silu, gelu, gelu_tanh, relu };

}  // namespace tessera
