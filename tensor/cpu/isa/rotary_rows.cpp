// Rotary positions: the rotation of one head's pairs.
#include "tensor/cpu/loops/rotary_rows.h"

#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/independent_iterations.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

/// Pair i are the elements i step and i step + apart.
template <class T, int step>
void rotate(const void* from, const void* cosines, const void* sines, int64_t pairs, void* to) {
  using A = accumulator_of<T>;
  const T* const x = static_cast<const T*>(from);
  const A *const c = static_cast<const A*>(cosines), *const s = static_cast<const A*>(sines);
  T* const y = static_cast<T*>(to);
  const int64_t apart = step == 2 ? 1 : pairs;
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < pairs; ++i) {
    const A first = widen<A>(x[i * step]), second = widen<A>(x[i * step + apart]);
    y[i * step] = narrow<T>(first * c[i] - second * s[i]);
    y[i * step + apart] = narrow<T>(second * c[i] + first * s[i]);
  }
}

template <int step>
RotateRow of_dtype(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return &rotate<double, step>;
    case DType::bf16:
      return &rotate<bfloat16, step>;
    case DType::f16:
      return &rotate<float16, step>;
    default:
      return &rotate<float, step>;
  }
}

}  // namespace

RotateRow rotate_row(bool neighbours, DType dtype) {
  return neighbours ? of_dtype<2>(dtype) : of_dtype<1>(dtype);
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
