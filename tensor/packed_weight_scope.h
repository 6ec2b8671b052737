#pragma once

#include <cstdint>
#include <memory>

#include "tensor/types/dtype.h"

namespace tessera {

namespace kernels::cpu {
class KeptOperands;
}

/// While it lives, matrix products of this thread on the CPU keep weights packed from one product to the
/// next: the second operands of products of few rows (256 in f32, 1,024 in bf16) by our kernels that come
/// twice with the same values (`Tensor::version`), for the micro-batches of a step, recomputation, evaluation
/// or decoding. A kept weight takes its bytes once more for the forward and once for the gradient of its
/// input, until the scope ends, counted as `MemoryCategory::other`. Results have the same bits. A scope
/// within another one uses what that keeps.
///
/// In the scope values change through operations alone, which raise the version; after a write through a
/// pointer or a collective, call `renew()`. Parameters that ranks shard (`full_shard` and its like) should
/// not be used in a scope: the packed form of a gathered weight stays after its values are freed.
class PackedWeightScope {
 public:
  PackedWeightScope();
  /// In the thread that opened the scope; the innermost scope ends first.
  ~PackedWeightScope();
  PackedWeightScope(const PackedWeightScope&) = delete;
  PackedWeightScope& operator=(const PackedWeightScope&) = delete;

  /// The bytes that packed weights of this thread's scope occupy; 0 outside of one.
  static int64_t kept_bytes();
  /// The most bytes that a weight (out, in) of `dtype` takes in a scope: both layouts, whole panels.
  static int64_t most_bytes(int64_t out, int64_t in, DType dtype);

  /// The weights of this thread's scope, if there is one, may have new values now: they are packed again when
  /// they come. Those that came once since the last renewal give their memory back.
  static void renew();

 private:
  std::unique_ptr<kernels::cpu::KeptOperands> own_;  // null within another scope
};

}  // namespace tessera
