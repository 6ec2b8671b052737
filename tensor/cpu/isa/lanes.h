#pragma once  // internal

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Vectors of 64 bytes are never passed between object files, so their calling convention does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace tessera::kernels::cpu::TESSERA_ISA {

/// Bytes of a register.
#if defined(__AVX512F__)
inline constexpr int register_bytes = 64;
#elif defined(__AVX2__)
inline constexpr int register_bytes = 32;
#else
inline constexpr int register_bytes = 16;
#endif

template <class A>
struct RegisterOf {
  typedef A type __attribute__((vector_size(register_bytes)));
};
/// The values of one register.
template <class A>
using Register = typename RegisterOf<A>::type;

/// Two vectors as one of twice their length. (A vector type that is longer than a register is kept in memory
/// by GCC, and each operation on it loads and stores its operands.)
template <class A, class Half>
struct Halves {
  Half low, high;

  A operator[](int64_t i) const {
    constexpr auto count = static_cast<int64_t>(sizeof(Half) / sizeof(A));
    return i < count ? low[i] : high[i - count];
  }
  [[gnu::always_inline]] friend Halves operator+(const Halves& a, const Halves& b) {
    return {a.low + b.low, a.high + b.high};
  }
  [[gnu::always_inline]] friend Halves operator-(const Halves& a, const Halves& b) {
    return {a.low - b.low, a.high - b.high};
  }
  [[gnu::always_inline]] friend Halves operator*(const Halves& a, const Halves& b) {
    return {a.low * b.low, a.high * b.high};
  }
};

template <class A, int bytes>
struct VectorOf {
  using type = Halves<A, typename VectorOf<A, bytes / 2>::type>;
};
template <class A>
struct VectorOf<A, register_bytes> {
  using type = Register<A>;
};

/// 64 bytes of values that are computed in parallel, in as many registers as that takes. The bits are the
/// same on every instruction set, as long as no product is contracted with a sum.
template <class A>
using Lanes = typename VectorOf<A, 64>::type;
template <class A>
inline constexpr int lane_count = 64 / static_cast<int>(sizeof(A));

template <class V, class A>
[[gnu::always_inline]] inline void load_into(V& v, const A* p) {
  std::memcpy(&v, p, sizeof v);
}
template <class A, class Half>
[[gnu::always_inline]] inline void load_into(Halves<A, Half>& v, const A* p) {
  load_into(v.low, p);
  load_into(v.high, p + sizeof(Half) / sizeof(A));
}
template <class A>
[[gnu::always_inline]] inline Lanes<A> load(const A* p) {
  Lanes<A> v;
  load_into(v, p);
  return v;
}

template <class V, class A>
[[gnu::always_inline]] inline void store(A* p, const V& v) {
  std::memcpy(p, &v, sizeof v);
}
template <class A, class Half>
[[gnu::always_inline]] inline void store(A* p, const Halves<A, Half>& v) {
  store(p, v.low);
  store(p + sizeof(Half) / sizeof(A), v.high);
}

/// Writes a register past the caches (tensor/cpu/loops/streamed_result.h); p is aligned to it.
[[gnu::always_inline]] inline void stream(float* p, const Register<float>& v) {
#if defined(__AVX512F__)
  _mm512_stream_ps(p, (__m512)v);
#elif defined(__AVX2__)
  _mm256_stream_ps(p, (__m256)v);
#elif defined(__SSE2__)
  _mm_stream_ps(p, (__m128)v);
#else
  store(p, v);
#endif
}

template <class V, class A>
[[gnu::always_inline]] inline void fill_with(V& v, A value) {
  v = value - V{};  // compilers reduce this to `value`; they cannot for value + 0
}
template <class A, class Half>
[[gnu::always_inline]] inline void fill_with(Halves<A, Half>& v, A value) {
  fill_with(v.low, value);
  v.high = v.low;
}
template <class A>
[[gnu::always_inline]] inline Lanes<A> fill(A value) {
  Lanes<A> v;
  fill_with(v, value);
  return v;
}

template <class V, int... i>
[[gnu::always_inline]] inline auto lower_half(const V& v, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(v, v, i...);
}
template <class V, int... i>
[[gnu::always_inline]] inline auto upper_half(const V& v, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(v, v, (static_cast<int>(sizeof...(i)) + i)...);
}

/// All lanes combined by halves: lane j with lane j + count/2, and so on.
template <class A, class V, class Combine>
[[gnu::always_inline]] inline A fold(const V& v, const Combine& combine) {
  constexpr int count = static_cast<int>(sizeof(V) / sizeof(A));
  if constexpr (count == 2) {
    return combine(A(v[0]), A(v[1]));
  } else if constexpr (count == 4) {
    return combine(combine(A(v[0]), A(v[2])), combine(A(v[1]), A(v[3])));
  } else {
    const std::make_integer_sequence<int, count / 2> half;
    return fold<A>(combine(lower_half(v, half), upper_half(v, half)), combine);
  }
}
template <class A, class Half, class Combine>
[[gnu::always_inline]] inline A fold(const Halves<A, Half>& v, const Combine& combine) {
  return fold<A>(combine(v.low, v.high), combine);
}

/// out[r] <- fold(v[r]) for r < count, with the same bits. In f32 with AVX-512 eight vectors take as many
/// instructions as two alone, and their dependent steps overlap.
template <class A, class Combine>
[[gnu::always_inline]] inline void fold_each(const Lanes<A>* v, int64_t count, const Combine& combine,
                                             A* out) {
  int64_t r = 0;
#if defined(__AVX512F__)
  if constexpr (sizeof(A) == 4) {
    const auto halves = [&](const Lanes<A>& a, const Lanes<A>& b) {
      return combine(
          __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
          __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31));
    };
    const auto quarters = [&](const Lanes<A>& a, const Lanes<A>& b) {
      return combine(
          __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27),
          __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31));
    };
    for (; r + 8 <= count; r += 8) {
      const Lanes<A> first = quarters(halves(v[r], v[r + 1]), halves(v[r + 2], v[r + 3])),
                     last = quarters(halves(v[r + 4], v[r + 5]), halves(v[r + 6], v[r + 7]));
      const Lanes<A> pairs = combine(
          __builtin_shufflevector(first, last, 0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29),
          __builtin_shufflevector(first, last, 2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31));
      const auto sums = combine(__builtin_shufflevector(pairs, pairs, 0, 2, 4, 6, 8, 10, 12, 14),
                                __builtin_shufflevector(pairs, pairs, 1, 3, 5, 7, 9, 11, 13, 15));
      std::memcpy(out + r, &sums, sizeof sums);
    }
  }
#endif
  for (; r < count; ++r) out[r] = fold<A>(v[r], combine);
}

// Operations that combine lanes, or scalars.

struct Add {
  template <class V>
  [[gnu::always_inline]] V operator()(const V& a, const V& b) const {
    if constexpr (std::is_same_v<V, int64_t>)
      return static_cast<V>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));  // wraps
    else
      return a + b;
  }
};

struct Multiply {
  template <class V>
  [[gnu::always_inline]] V operator()(const V& a, const V& b) const {
    return a * b;
  }
};

/// The larger value; NaN if either is.
struct Larger {
  template <class V>
  [[gnu::always_inline]] V operator()(const V& a, const V& b) const {
    return ((b > a) | (b != b)) ? b : a;
  }
  template <class A, class Half>
  [[gnu::always_inline]] Halves<A, Half> operator()(const Halves<A, Half>& a,
                                                    const Halves<A, Half>& b) const {
    return {(*this)(a.low, b.low), (*this)(a.high, b.high)};
  }
};

/// The smaller value; NaN if either is.
struct Smaller {
  template <class V>
  [[gnu::always_inline]] V operator()(const V& a, const V& b) const {
    return ((b < a) | (b != b)) ? b : a;
  }
  template <class A, class Half>
  [[gnu::always_inline]] Halves<A, Half> operator()(const Halves<A, Half>& a,
                                                    const Halves<A, Half>& b) const {
    return {(*this)(a.low, b.low), (*this)(a.high, b.high)};
  }
};

/// The larger value; where one is NaN, either of them.
struct LargerOrAny {
  template <class V>
  [[gnu::always_inline]] V operator()(const V& a, const V& b) const {
    return b > a ? b : a;
  }
  template <class A, class Half>
  [[gnu::always_inline]] Halves<A, Half> operator()(const Halves<A, Half>& a,
                                                    const Halves<A, Half>& b) const {
    return {(*this)(a.low, b.low), (*this)(a.high, b.high)};
  }
};

/// The smaller value; where one is NaN, either of them.
struct SmallerOrAny {
  template <class V>
  [[gnu::always_inline]] V operator()(const V& a, const V& b) const {
    return b < a ? b : a;
  }
  template <class A, class Half>
  [[gnu::always_inline]] Halves<A, Half> operator()(const Halves<A, Half>& a,
                                                    const Halves<A, Half>& b) const {
    return {(*this)(a.low, b.low), (*this)(a.high, b.high)};
  }
};

/// at(i), ..., at(i + lane_count - 1). `at` is scalar and has no branches, so that the loop becomes vector
/// instructions.
template <class A, class At>
[[gnu::always_inline]] inline Lanes<A> lanes_of(int64_t i, const At& at) {
  A lane[lane_count<A>];
#pragma GCC unroll 1  // unrolling before vectorization gives worse code
  for (int j = 0; j < lane_count<A>; ++j) lane[j] = at(i + j);
  return load(lane);
}

/// at(0), ..., at(n - 1) combined: element i in lane i modulo 2 * lane_count, then the lanes by halves.
template <class A, class Combine, class At>
[[gnu::always_inline]] inline A reduce_lanes(int64_t n, A identity, const Combine& combine, const At& at) {
  constexpr int width = lane_count<A>;
  Lanes<A> first = fill(identity), second = first;
  int64_t i = 0;
  for (; i + 2 * width <= n; i += 2 * width) {
    first = combine(first, lanes_of<A>(i, at));
    second = combine(second, lanes_of<A>(i + width, at));
  }
  if (i < n) {
    A tail[2 * width];
    for (A& lane : tail) lane = identity;
    for (int j = 0; i + j < n; ++j) tail[j] = at(i + j);
    first = combine(first, load(tail));
    second = combine(second, load(tail + width));
  }
  return fold<A>(combine(first, second), combine);
}

template <class A, class At>
[[gnu::always_inline]] inline A sum_lanes(int64_t n, const At& at) {
  return reduce_lanes<A>(n, A(0), Add(), at);
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
