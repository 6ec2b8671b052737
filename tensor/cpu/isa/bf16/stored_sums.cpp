// Sums of values as they are stored: widened, added and rounded in registers.
#include "tensor/cpu/loops/stored_sums.h"

#include "tensor/cpu/isa/stored_lanes.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

template <class First, class T, class Sum>
void add(const First* a, const T* b, int64_t n, Sum* y) {
  for_vectors<accumulator_of<T>>(n, [&](int64_t i, auto part) {
    store_narrowed(y + i, load_widened(a + i, part) + load_widened(b + i, part), part);
  });
}

template <class T>
void accumulate(const T* x, int64_t n, accumulator_of<T>* sums) {
  add(sums, x, n, sums);
}

template <class T>
constexpr StoredSums<T> table{&add<T, T, T>, &add<T, T, accumulator_of<T>>, &accumulate<T>};

}  // namespace

const StoredSums<float>& stored_sums_f32() {
  return table<float>;
}
const StoredSums<double>& stored_sums_f64() {
  return table<double>;
}
const StoredSums<bfloat16>& stored_sums_bf16() {
  return table<bfloat16>;
}
const StoredSums<float16>& stored_sums_f16() {
  return table<float16>;
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
