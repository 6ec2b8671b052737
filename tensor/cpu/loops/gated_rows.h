#pragma once  // internal

#include <cstdint>

#include "tensor/arguments/gated.h"
#include "tensor/cpu/isa.h"
#include "tensor/types/dtype.h"

namespace tessera::kernels::cpu {

/// A gated linear unit on n contiguous elements of one floating dtype, computed in its accumulator's. Results
/// may be operands.
struct GatedRows {
  /// y = f(gate) x.
  void (*forward)(const void* gate, const void* x, int64_t n, void* y);
  /// dgate = dy x f'(gate) and dx = dy f(gate), in one pass.
  void (*backward)(const void* gate, const void* x, const void* dy, int64_t n, void* dgate, void* dx);
};

TESSERA_DECLARE_PER_ISA(GatedRows gated_rows(Gate f, DType dtype);)

}  // namespace tessera::kernels::cpu
