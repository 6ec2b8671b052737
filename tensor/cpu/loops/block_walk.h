#pragma once  // internal

#include <array>
#include <cstdint>

#include "tensor/function_ref.h"
#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// An operand of an elementwise operation: its elements, their dtype, and the dtype that the inner loop
/// takes.
struct Operand {
  const void* data;
  DType dtype;
  Strides strides;                // to the output's shape; 0 where broadcast
  DType block_type;               // of the contiguous block that the inner loop gets
  bool may_be_scalar = false;     // the inner loop can take one value for the whole block
  bool waits_for_memory = false;  // a result: the inner loop is faster than memory

  static Operand of(const Tensor& tensor, DType block_type, bool may_be_scalar = false) {
    return {tensor.raw_data(), tensor.dtype(), tensor.strides(), block_type, may_be_scalar};
  }
  /// The output of an inner loop of a few instructions per element.
  static Operand of_fast(const Tensor& tensor, DType block_type) {
    Operand out = of(tensor, block_type);
    out.waits_for_memory = true;
    return out;
  }
};

/// The arguments of an inner loop: `in[k]` points to n elements of operand k's block type, or to one where
/// `scalar[k]` is true.
struct Block {
  std::array<const void*, 3> in = {};
  std::array<bool, 3> scalar = {};
  void* out = nullptr;
  int64_t n = 0;
};

/// Cuts the output into blocks that are contiguous for the inner loop and runs `inner` on each, in parallel.
/// Operands that are contiguous and of the block type are passed in place; others are gathered and converted
/// in small buffers that stay in the first-level cache. The inner loop writes `out.block_type`. A large
/// output that waits for memory is written past the caches (streamed_result.h).
void walk_blocks(const Shape& shape, const Operand& out, std::initializer_list<Operand> inputs,
                 FunctionRef<void(const Block&)> inner);

}  // namespace tessera::kernels::cpu
