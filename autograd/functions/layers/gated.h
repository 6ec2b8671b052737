#pragma once

#include "autograd/variable.h"
#include "tensor/ops/layers/gated.h"

namespace tessera {

/// f(gate) x element by element, the product of a gated linear unit (Dauphin et al. 2017; Shazeer 2020). One
/// pass forward, and one backward for both gradients. Saves gate and x.
Variable gated(Gate f, const Variable& gate, const Variable& x);
/// silu(gate) x, as Llama's.
Variable swiglu(const Variable& gate, const Variable& x);
/// gelu(gate) x.
Variable geglu(const Variable& gate, const Variable& x);
/// The first half of x along `dim` times the sigmoid of the second. Saves x; the gradient is written whole.
Variable glu(const Variable& x, int64_t dim = -1);

}  // namespace tessera
