#pragma once  // internal

#include <span>

#include "tensor/profile/operand_bytes.h"
#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// The operands of a rotation: x and y (B, H, T, D) of one floating dtype with last strides of 1.
struct RotaryCall {
  Tensor x, y;
  Tensor cosines, sines;  // (positions, pairs), contiguous, of the accumulator's dtype
  int64_t pairs;          // the first 2 `pairs` elements of a head turn, the others are copied
  bool neighbours;
  std::span<const int64_t> first_rows;  // per row of the batch, the table's row for its first position
};
inline int64_t operand_bytes(const RotaryCall& c) {
  return bytes_of_operands(c.x, c.y, c.cosines, c.sines);
}

void rotary(const RotaryCall& call);

}  // namespace tessera::kernels::cpu
