// Dropout with random words at hand: read, dropped, added and rounded in registers.
#include "tensor/cpu/loops/dropout_blocks.h"

#include "tensor/cpu/isa/stored_lanes.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

/// The lanes of v times `scale`, or 0 where the word is below `threshold`.
template <class A>
[[gnu::always_inline]] inline Lanes<A> kept(const Lanes<A>& v, const uint32_t* words, uint32_t threshold,
                                            A scale) {
  A lane[lane_count<A>];
  store(lane, v);
  return lanes_of<A>(0, [&](int64_t j) {
    const A scaled = lane[j] * scale;
    return words[j] < threshold ? A(0) : scaled;
  });
}

template <class From, class To>
void drop(const void* x_bytes, const void* base_bytes, const uint32_t* words, uint32_t threshold,
          double exact_scale, int64_t n, void* y_bytes) {
  using A = accumulator_of<From>;
  const From* const x = static_cast<const From*>(x_bytes);
  const To* const base = static_cast<const To*>(base_bytes);
  To* const y = static_cast<To*>(y_bytes);
  const A scale = static_cast<A>(exact_scale);
  const auto vector = [&](int64_t i, const uint32_t* word, auto part) {
    Lanes<A> v = kept<A>(load_widened(x + i, part), word, threshold, scale);
    if (base) v = load_widened(base + i, part) + v;
    store_narrowed(y + i, v, part);
  };
  constexpr int width = lane_count<A>;
  int64_t i = 0;
  for (; i + width <= n; i += width) vector(i, words + i, Whole());
  if (i == n) return;
  uint32_t last[width] = {};
  for (int64_t j = 0; i + j < n; ++j) last[j] = words[i + j];
  vector(i, last, Some{n - i});
}

}  // namespace

DropoutBlock dropout_block(DType from, DType to) {
  if (from == DType::f64) return &drop<double, double>;
  if (from == DType::bf16) return to == DType::f32 ? &drop<bfloat16, float> : &drop<bfloat16, bfloat16>;
  if (from == DType::f16) return to == DType::f32 ? &drop<float16, float> : &drop<float16, float16>;
  if (to == DType::bf16) return &drop<float, bfloat16>;
  return to == DType::f16 ? &drop<float, float16> : &drop<float, float>;
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
