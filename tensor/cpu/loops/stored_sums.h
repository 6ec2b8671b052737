#pragma once  // internal

#include <cstdint>
#include <type_traits>

#include "tensor/cpu/isa_bf16.h"
#include "tensor/types/accumulator.h"

namespace tessera::kernels::cpu {

/// Sums of contiguous values of a floating type T, computed in A.
template <class T>
struct StoredSums {
  using A = accumulator_of<T>;
  /// y = a + b, rounded to T or not.
  /// @{
  void (*add)(const T* a, const T* b, int64_t n, T* y);
  void (*add_wide)(const T* a, const T* b, int64_t n, A* y);
  /// @}
  /// sums += x.
  void (*accumulate)(const T* x, int64_t n, A* sums);
};

// clang-format off
TESSERA_DECLARE_PER_ISA_BF16(
  const StoredSums<float>& stored_sums_f32();
  const StoredSums<double>& stored_sums_f64();
  const StoredSums<bfloat16>& stored_sums_bf16();
  const StoredSums<float16>& stored_sums_f16();
)
// clang-format on

/// The functions of the instruction set in use.
template <class T>
const StoredSums<T>& stored_sums() {
  if constexpr (std::is_same_v<T, float>)
    return TESSERA_PER_ISA_BF16(stored_sums_f32)();
  else if constexpr (std::is_same_v<T, double>)
    return TESSERA_PER_ISA_BF16(stored_sums_f64)();
  else if constexpr (std::is_same_v<T, bfloat16>)
    return TESSERA_PER_ISA_BF16(stored_sums_bf16)();
  else
    return TESSERA_PER_ISA_BF16(stored_sums_f16)();
}

}  // namespace tessera::kernels::cpu
