// Maps of tiles, one register of channels at a time. Each two-dimensional map is a one-dimensional one
// applied to the columns and then to the rows. With the points 0, 1, -1, 2, -2 and infinity (Lavin and Gray
// 2015, https://arxiv.org/abs/1509.09308) all factors but those of the weights are small integers. This file
// is compiled with contraction, as the products between the maps are.
#include "tensor/cpu/loops/winograd_tiles.h"

#include "tensor/cpu/isa/lanes.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

using V = Register<float>;
constexpr int64_t lanes = register_bytes / static_cast<int64_t>(sizeof(float));

typedef uint16_t HalfBits __attribute__((vector_size(register_bytes / 2)));
typedef uint32_t Bits __attribute__((vector_size(register_bytes)));

[[gnu::always_inline]] inline V load_values(const float* p) {
  V v;
  load_into(v, p);
  return v;
}
[[gnu::always_inline]] inline V load_values(const bfloat16* p) {
  HalfBits half;
  std::memcpy(&half, p, sizeof half);
  return reinterpret_cast<V>(__builtin_convertvector(half, Bits) << 16);
}
[[gnu::always_inline]] inline void store_values(float* p, const V& v) {
  store(p, v);
}
[[gnu::always_inline]] inline void store_values(bfloat16* p, const V& v) {
  const Bits u = reinterpret_cast<Bits>(v);  // rounds as bfloat16's constructor does
  const Bits rounded = u + 0x7fffu + ((u >> 16) & 1u);
  const Bits chosen = (u & 0x7fffffffu) > 0x7f800000u ? u | 0x400000u : rounded;
  const HalfBits half = __builtin_convertvector(chosen >> 16, HalfBits);
  std::memcpy(p, &half, sizeof half);
}

constexpr float root2 = 1.41421356f, root_half = 0.707106781f;

/// B^T: 6 to 6.
struct Input {
  static constexpr int from = 6, to = 6;
  [[gnu::always_inline]] static void map(const V (&d)[6], V (&t)[6]) {
    const V a = d[4] - d[2] * 2.0f, b = (d[3] - d[1] * 2.0f) * root_half;
    const V c = d[4] - d[2] * 0.5f, e = (d[3] - d[1] * 0.5f) * root2;
    t[0] = d[0] - d[2] * 2.5f + d[4];
    t[1] = a + b;
    t[2] = a - b;
    t[3] = c + e;
    t[4] = c - e;
    t[5] = d[1] - d[3] * 2.5f + d[5];
  }
};

/// A^T: 6 to 4.
struct Output {
  static constexpr int from = 6, to = 4;
  [[gnu::always_inline]] static void map(const V (&m)[6], V (&y)[4]) {
    const V s = m[1] + m[2], d = m[1] - m[2], p = m[3] + m[4], q = m[3] - m[4];
    y[0] = m[0] + s + p;
    y[1] = d * root_half + q * root2;
    y[2] = s * 0.5f + p * 2.0f;
    y[3] = d * (root_half / 2) + q * (root2 * 2) + m[5];
  }
};

/// A: 4 to 6.
struct OutputGradient {
  static constexpr int from = 4, to = 6;
  [[gnu::always_inline]] static void map(const V (&y)[4], V (&m)[6]) {
    const V a = y[0] + y[2] * 0.5f, b = (y[1] + y[3] * 0.5f) * root_half;
    const V c = y[0] + y[2] * 2.0f, e = (y[1] + y[3] * 2.0f) * root2;
    m[0] = y[0];
    m[1] = a + b;
    m[2] = a - b;
    m[3] = c + e;
    m[4] = c - e;
    m[5] = y[3];
  }
};

/// G: 3 to 6.
struct Weight {
  static constexpr int from = 3, to = 6;
  [[gnu::always_inline]] static void map(const V (&g)[3], V (&u)[6]) {
    const V a = (g[0] + g[2] * 0.5f) * (-2.0f / 3), b = g[1] * (-2.0f / 3 * root_half);
    const V c = (g[0] + g[2] * 2.0f) * (1.0f / 6), e = g[1] * (root2 / 6);
    u[0] = g[0];
    u[1] = a + b;
    u[2] = a - b;
    u[3] = c + e;
    u[4] = c - e;
    u[5] = g[2];
  }
};

/// G^T: 6 to 3.
struct WeightGradient {
  static constexpr int from = 6, to = 3;
  [[gnu::always_inline]] static void map(const V (&u)[6], V (&g)[3]) {
    const V s = u[1] + u[2], d = u[1] - u[2], p = u[3] + u[4], q = u[3] - u[4];
    g[0] = u[0] - s * (2.0f / 3) + p * (1.0f / 6);
    g[1] = q * (root2 / 6) - d * (2.0f / 3 * root_half);
    g[2] = (p - s) * (1.0f / 3) + u[5];
  }
};

/// Applies M to the columns and the rows of values that `read(i)` loads and `write(i, v)` stores, row-major.
template <class M, class Read, class Write>
[[gnu::always_inline]] inline void map_square(const Read& read, const Write& write) {
  V half[M::to][M::from];
#pragma GCC unroll 6
  for (int j = 0; j < M::from; ++j) {
    V column[M::from], mapped[M::to];
#pragma GCC unroll 6
    for (int i = 0; i < M::from; ++i) column[i] = read(i * M::from + j);
    M::map(column, mapped);
#pragma GCC unroll 6
    for (int i = 0; i < M::to; ++i) half[i][j] = mapped[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < M::to; ++i) {
    V mapped[M::to];
    M::map(half[i], mapped);
#pragma GCC unroll 6
    for (int j = 0; j < M::to; ++j) write(i * M::to + j, mapped[j]);
  }
}

template <class M, class T>
void from_pixels(const T* const* pixels, int64_t channels, float* v, int64_t step) {
  for (int64_t c = 0; c < channels; c += lanes)
    map_square<M>([&](int i) { return load_values(pixels[i] + c); },
                  [&](int i, const V& value) { store(v + i * step + c, value); });
}

template <class T>
void output(const float* m, int64_t step, int64_t channels, const float* bias, const T* const* added,
            bool relu, T* const* pixels) {
  for (int64_t c = 0; c < channels; c += lanes) {
    const V of_channel = bias ? load_values(bias + c) : V{};
    map_square<Output>([&](int i) { return load_values(m + i * step + c); },
                       [&](int i, const V& value) {
                         if (!pixels[i]) return;
                         V y = bias ? value + of_channel : value;
                         if (added) y += load_values(added[i] + c);
                         if (relu) y = y < 0.0f ? V{} : y;  // keeps NaN
                         store_values(pixels[i] + c, y);
                       });
  }
}

template <class T>
constexpr WinogradTiles<T> table{&from_pixels<Input, T>, &output<T>, &from_pixels<OutputGradient, T>};

}  // namespace

const WinogradTiles<float>& winograd_tiles_f32() {
  return table<float>;
}
const WinogradTiles<bfloat16>& winograd_tiles_bf16() {
  return table<bfloat16>;
}

void winograd_weight(const float* w, int64_t taps, int64_t channels, float* u, int64_t step) {
  for (int64_t c = 0; c < channels; c += lanes)
    map_square<Weight>([&](int i) { return load_values(w + i * taps + c); },
                       [&](int i, const V& value) { store(u + i * step + c, value); });
}

void winograd_weight_gradient(const float* du, int64_t step, int64_t channels, float* dw, int64_t taps) {
  for (int64_t c = 0; c < channels; c += lanes)
    map_square<WeightGradient>([&](int i) { return load_values(du + i * step + c); },
                               [&](int i, const V& value) { store(dw + i * taps + c, value); });
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
