// Sums, extremes and products of rows and columns, with 2 accumulators of 64 bytes along a row and 4 across
// columns. Every value is read once.
#include "tensor/cpu/loops/row_reductions.h"

#include "tensor/cpu/isa/stored_lanes.h"
#include "tensor/elementwise/exp.h"
#include "tensor/elementwise/power.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

// The maps that are applied to a value before it is combined. They are scalar and have no branches, so that
// loops over them vectorize.

struct Identity {
  template <class A>
  [[gnu::always_inline]] A operator()(A x, A) const {
    return x;
  }
};

struct Magnitude {
  template <class A>
  [[gnu::always_inline]] A operator()(A x, A) const {
    return elementwise::abs(x);
  }
};

struct Square {
  template <class A>
  [[gnu::always_inline]] A operator()(A x, A) const {
    return x * x;
  }
};

struct Deviation {
  template <class A>
  [[gnu::always_inline]] A operator()(A x, A center) const {
    return x - center;
  }
};

struct SquaredDeviation {
  template <class A>
  [[gnu::always_inline]] A operator()(A x, A center) const {
    return (x - center) * (x - center);
  }
};

struct Nonzero {
  template <class A>
  [[gnu::always_inline]] A operator()(A x, A) const {
    return x != A(0) ? A(1) : A(0);
  }
};

struct Power {
  template <class A>
  [[gnu::always_inline]] A operator()(A x, A exponent) const {
    return elementwise::pow(elementwise::abs(x), exponent);
  }
};

struct Exponential {
  template <class A>
  [[gnu::always_inline]] A operator()(A x, A shift) const {
    return elementwise::exp(x - shift);
  }
};

template <class A, class Map>
[[gnu::always_inline]] inline Lanes<A> load_mapped(const A* x, const A* parameters, const Map& map) {
  return lanes_of<A>(0, [&](int64_t j) { return map(x[j], parameters[j]); });
}

/// One vector of columns, of which `count` exist.
template <class A, class Combine, class Map>
void combine_some_columns(const A* x, int64_t row_stride, int64_t rows, int64_t count, const A* parameters,
                          Lanes<A>& result, const Combine& combine, const Map& map) {
  A row[lane_count<A>] = {}, row_parameters[lane_count<A>] = {};
  for (int64_t j = 0; j < count; ++j) row_parameters[j] = parameters[j];
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < count; ++j) row[j] = x[r * row_stride + j];
    result = combine(result, load_mapped(row, row_parameters, map));
  }
}

template <class A, class Partial, class Combine, class Map>
void combine_columns(const A* x, int64_t row_stride, int64_t rows, int64_t columns, const A* parameters,
                     Partial* out, A identity, const Combine& combine, const Map& map) {
  constexpr int width = lane_count<A>;
  int64_t c = 0;
  for (; c + 4 * width <= columns; c += 4 * width) {
    Lanes<A> r0 = fill(identity), r1 = r0, r2 = r0, r3 = r0;
    const A* p = parameters + c;
    for (int64_t r = 0; r < rows; ++r) {
      const A* row = x + r * row_stride + c;
      r0 = combine(r0, load_mapped(row, p, map));
      r1 = combine(r1, load_mapped(row + width, p + width, map));
      r2 = combine(r2, load_mapped(row + 2 * width, p + 2 * width, map));
      r3 = combine(r3, load_mapped(row + 3 * width, p + 3 * width, map));
    }
    for (int j = 0; j < width; ++j) {
      out[c + j] = static_cast<Partial>(r0[j]);
      out[c + j + width] = static_cast<Partial>(r1[j]);
      out[c + j + 2 * width] = static_cast<Partial>(r2[j]);
      out[c + j + 3 * width] = static_cast<Partial>(r3[j]);
    }
  }
  for (; c < columns; c += width) {
    const int64_t count = columns - c < width ? columns - c : width;
    Lanes<A> r = fill(identity);
    combine_some_columns(x + c, row_stride, rows, count, parameters + c, r, combine, map);
    for (int64_t j = 0; j < count; ++j) out[c + j] = static_cast<Partial>(r[j]);
  }
}

template <class A>
struct Bounds {
  static constexpr A lowest = -elementwise::Floating<A>::infinity;
  static constexpr A highest = elementwise::Floating<A>::infinity;
};
template <>
struct Bounds<int64_t> {
  static constexpr int64_t lowest = INT64_MIN;
  static constexpr int64_t highest = INT64_MAX;
};

/// Calls `reduce(identity, combine, map)` with the operations of `kind`.
template <class A, class Reduce>
void with_operations(RowReduction kind, const Reduce& reduce) {
  using K = RowReduction;
  if (kind == K::sum) return reduce(A(0), Add(), Identity());
  if (kind == K::product) return reduce(A(1), Multiply(), Identity());
  if (kind == K::largest) return reduce(Bounds<A>::lowest, Larger(), Identity());
  if (kind == K::smallest) return reduce(Bounds<A>::highest, Smaller(), Identity());
  if (kind == K::count_of_nonzeros) return reduce(A(0), Add(), Nonzero());
  if constexpr (std::is_floating_point_v<A>) {
    if (kind == K::sum_of_magnitudes) return reduce(A(0), Add(), Magnitude());
    if (kind == K::sum_of_squares) return reduce(A(0), Add(), Square());
    if (kind == K::sum_of_deviations) return reduce(A(0), Add(), Deviation());
    if (kind == K::sum_of_squared_deviations) return reduce(A(0), Add(), SquaredDeviation());
    if (kind == K::sum_of_powers) return reduce(A(0), Add(), Power());
    if (kind == K::sum_of_exponentials) return reduce(A(0), Add(), Exponential());
    if (kind == K::largest_magnitude) return reduce(A(0), Larger(), Magnitude());
    if (kind == K::smallest_magnitude) return reduce(Bounds<A>::highest, Smaller(), Magnitude());
  }
}

template <class A>
typename RowReductions<A>::Partial reduce_row(RowReduction kind, const A* x, int64_t n, A parameter) {
  A result{};
  with_operations<A>(kind, [&](A identity, const auto& combine, const auto& map) {
    result = reduce_lanes<A>(n, identity, combine, [&](int64_t i) { return map(x[i], parameter); });
  });
  return static_cast<typename RowReductions<A>::Partial>(result);
}

template <class A>
void reduce_columns(RowReduction kind, const A* x, int64_t row_stride, int64_t rows, int64_t columns,
                    const A* parameters, typename RowReductions<A>::Partial* out) {
  with_operations<A>(kind, [&](A identity, const auto& combine, const auto& map) {
    combine_columns(x, row_stride, rows, columns, parameters, out, identity, combine, map);
  });
}

/// Adds `count` rows.
template <int count, class T, class A>
[[gnu::always_inline]] inline void add_rows(const T* x, int64_t row_stride, int64_t columns, A* sums) {
  for_vectors<A>(columns, [&](int64_t c, auto part) {
    Lanes<A> sum = load_widened(sums + c, part);
    for (int r = 0; r < count; ++r) sum = sum + load_widened(x + r * row_stride + c, part);
    store_narrowed(sums + c, sum, part);
  });
}

template <class T>
void sum_columns(const void* x_bytes, int64_t row_stride, int64_t rows, int64_t columns, void* sum_bytes) {
  using A = accumulator_of<T>;
  const T* x = static_cast<const T*>(x_bytes);
  A* const sums = static_cast<A*>(sum_bytes);
  for (int64_t c = 0; c < columns; ++c) sums[c] = 0;
  constexpr int together = 4;
  int64_t r = 0;
  for (; r + together <= rows; r += together)
    add_rows<together>(x + r * row_stride, row_stride, columns, sums);
  for (; r < rows; ++r) add_rows<1>(x + r * row_stride, row_stride, columns, sums);
}

template <class A>
constexpr RowReductions<A> table{&reduce_row<A>, &reduce_columns<A>};

}  // namespace

ColumnSums column_sums(DType type) {
  switch (type) {
    case DType::f64:
      return &sum_columns<double>;
    case DType::f32:
      return &sum_columns<float>;
    case DType::bf16:
      return &sum_columns<bfloat16>;
    case DType::f16:
      return &sum_columns<float16>;
    default:
      return nullptr;
  }
}

const RowReductions<float>& row_reductions_f32() {
  return table<float>;
}
const RowReductions<double>& row_reductions_f64() {
  return table<double>;
}
const RowReductions<int64_t>& row_reductions_i64() {
  return table<int64_t>;
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
