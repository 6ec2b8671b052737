// Combines the arrays of several ranks in rank order. Every source is read once, the result is written once:
// bound by memory.
#include "tensor/cpu/isa/combine_sources.h"

#include "tensor/cpu/isa/lanes.h"
#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/independent_iterations.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

/// Elements whose sums stay in the first-level cache while one source after another is added.
constexpr int64_t block = 1024;

template <class A>
TESSERA_ELEMENT A divided(A x, A divisor, bool divides) {
  return divides ? x / divisor : x;
}

/// Element i of `count` sources, joined from the left.
template <class Join, int count, class T>
[[gnu::always_inline]] inline auto joined(const T* const* s, int64_t i) {
  using A = accumulator_of<T>;
  A a = widen<A>(s[0][i]);
  if constexpr (count > 1) a = Join()(a, widen<A>(s[1][i]));
  if constexpr (count > 2) a = Join()(a, widen<A>(s[2][i]));
  if constexpr (count > 3) a = Join()(a, widen<A>(s[3][i]));
  return a;
}

// The result may be one of the sources, element on element, so iterations are independent.

/// The elements of a source from `first` on.
template <class T>
TESSERA_ELEMENT const T* elements_of(const void* source, int64_t first) {
  return static_cast<const T*>(source) + first;
}

template <class Join, bool divides, int count, class T>
void combine_few(const void* const* sources, int64_t first, T* out, int64_t n) {
  using A = accumulator_of<T>;
  const T* s[count];
  for (int k = 0; k < count; ++k) s[k] = elements_of<T>(sources[k], first);
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i)
    out[i] = narrow<T>(divided(joined<Join, count>(s, i), static_cast<A>(count), divides));
}

template <class Join, bool divides, class T>
void combine_many(const void* const* sources, int count, int64_t first, T* out, int64_t n) {
  using A = accumulator_of<T>;
  alignas(64) A sums[block];
  for (int64_t begin = 0; begin < n; begin += block) {
    const int64_t length = n - begin < block ? n - begin : block;
    const T* s[4];
    for (int k = 0; k < 4; ++k) s[k] = elements_of<T>(sources[k], first + begin);
    for (int64_t i = 0; i < length; ++i) sums[i] = joined<Join, 4>(s, i);
    for (int k = 4; k < count; ++k) {
      const T* x = elements_of<T>(sources[k], first + begin);
      for (int64_t i = 0; i < length; ++i) sums[i] = Join()(sums[i], widen<A>(x[i]));
    }
    TESSERA_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < length; ++i)
      out[begin + i] = narrow<T>(divided(sums[i], static_cast<A>(count), divides));
  }
}

template <class Join, bool divides, class T>
void combine_by_count(const void* const* sources, int count, int64_t first, T* out, int64_t n) {
  switch (count) {
    case 1:
      return combine_few<Join, divides, 1>(sources, first, out, n);
    case 2:
      return combine_few<Join, divides, 2>(sources, first, out, n);
    case 3:
      return combine_few<Join, divides, 3>(sources, first, out, n);
    case 4:
      return combine_few<Join, divides, 4>(sources, first, out, n);
    default:
      return combine_many<Join, divides>(sources, count, first, out, n);
  }
}

template <class T>
void combine(Combination combination, const void* const* sources, int count, int64_t first, void* untyped,
             int64_t n) {
  T* out = static_cast<T*>(untyped);
  switch (combination) {
    case Combination::sum:
      return combine_by_count<Add, false>(sources, count, first, out, n);
    case Combination::mean:
      return combine_by_count<Add, true>(sources, count, first, out, n);
    case Combination::smallest:
      return combine_by_count<Smaller, false>(sources, count, first, out, n);
    case Combination::largest:
      return combine_by_count<Larger, false>(sources, count, first, out, n);
  }
}

}  // namespace

void combine_block(DType dtype, Combination combination, const void* const* sources, int count, int64_t first,
                   void* out, int64_t n) {
  switch (dtype) {
    case DType::f64:
      return combine<double>(combination, sources, count, first, out, n);
    case DType::f32:
      return combine<float>(combination, sources, count, first, out, n);
    case DType::bf16:
      return combine<bfloat16>(combination, sources, count, first, out, n);
    case DType::f16:
      return combine<float16>(combination, sources, count, first, out, n);
    case DType::i64:
      return combine<int64_t>(combination, sources, count, first, out, n);
    case DType::i32:
      return combine<int32_t>(combination, sources, count, first, out, n);
    case DType::u8:
      return combine<uint8_t>(combination, sources, count, first, out, n);
    case DType::boolean:
      return combine<Boolean>(combination, sources, count, first, out, n);
  }
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
