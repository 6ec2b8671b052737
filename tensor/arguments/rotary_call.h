#pragma once  // internal

#include <span>

#include "tensor/profile/operand_bytes.h"
#include "tensor/tensor.h"

namespace tessera::ops {

/// The operands of a rotation: x and y (B, H, T, D) of one floating dtype with last strides of 1. The pair i
/// of row b's element t turns by the angle (first_positions[b] + t) base^(-i / pairs).
struct RotaryCall {
  Tensor x;                 ///< what is turned
  Tensor y;                 ///< the result
  int64_t pairs = 0;        ///< the first 2 `pairs` elements of a head turn, the others are copied
  double base = 10000;      ///< of the angles
  bool neighbours = false;  ///< pairs are elements 2 i and 2 i + 1; else i and i + `pairs`
  bool inverse = false;     ///< by the negative angles
  std::span<const int64_t> first_positions;  ///< one for each row of the batch
};
/// Read and written.
inline int64_t operand_bytes(const RotaryCall& c) {
  return bytes_of_operands(c.x, c.y);
}

}  // namespace tessera::ops
