#pragma once

#include <cstdint>
#include <cstring>

// Vectors of 64 bytes never cross from one object file to another, so how they would be passed is no matter.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace tessera::kernels::cpu::TESSERA_ISA {

template <class A>
struct LanesOf {
  static constexpr int count = 64 / static_cast<int>(sizeof(A));
  typedef A type __attribute__((vector_size(64)));
};

/// 64 bytes of numbers that are computed side by side. The compiler maps them to registers of whatever width
/// the instruction set has, so the arithmetic, and its bits, are the same on all.
template <class A>
using Lanes = typename LanesOf<A>::type;
template <class A>
inline constexpr int lane_count = LanesOf<A>::count;

template <class A>
[[gnu::always_inline]] inline Lanes<A> load(const A* p) {
  Lanes<A> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class A>
[[gnu::always_inline]] inline void store(A* p, const Lanes<A>& v) {
  std::memcpy(p, &v, sizeof v);
}

template <class A>
[[gnu::always_inline]] inline Lanes<A> fill(A value) {
  return Lanes<A>{} + value;
}

/// The first `n` numbers at p (fewer than lane_count), then `rest`.
template <class A>
[[gnu::always_inline]] inline Lanes<A> load_part(const A* p, int64_t n, A rest) {
  A part[lane_count<A>];
  for (int j = 0; j < lane_count<A>; ++j) part[j] = j < n ? p[j] : rest;
  return load(part);
}

/// All lanes combined by halves: lane j with lane j + count/2, and so on.
template <class A, class Combine>
[[gnu::always_inline]] inline A fold(const Lanes<A>& v, const Combine& combine) {
  A lane[lane_count<A>];
  store(lane, v);
  for (int width = lane_count<A> / 2; width > 0; width /= 2)
    for (int j = 0; j < width; ++j) lane[j] = combine(lane[j], lane[j + width]);
  return lane[0];
}

struct Add {
  template <class V>
  [[gnu::always_inline]] V operator()(const V& a, const V& b) const {
    return a + b;
  }
};

struct Multiply {
  template <class V>
  [[gnu::always_inline]] V operator()(const V& a, const V& b) const {
    return a * b;
  }
};

/// The larger; a NaN wins.
struct Larger {
  template <class V>
  [[gnu::always_inline]] V operator()(const V& a, const V& b) const {
    return ((b > a) | (b != b)) ? b : a;
  }
};

/// The smaller; a NaN wins.
struct Smaller {
  template <class V>
  [[gnu::always_inline]] V operator()(const V& a, const V& b) const {
    return ((b < a) | (b != b)) ? b : a;
  }
};

}  // namespace tessera::kernels::cpu::TESSERA_ISA
