#include "tensor/cpu/indexing/indexing.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "tensor/cpu/loops/index_values.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/accumulator.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t grain_elements = 1 << 14;

/// The extents of a contiguous tensor seen as (outer, count, inner), where `count` is that of dimension
/// `dim`.
struct AroundDim {
  int64_t outer = 1, count, inner = 1;
  AroundDim(const Tensor& x, int64_t dim) : count(x.shape()[dim]) {
    for (int64_t i = 0; i < x.ndim(); ++i) (i < dim ? outer : inner) *= i == dim ? 1 : x.shape()[i];
  }
};

/// Calls `body(element, offset)` for the elements of a contiguous index in order. `offset` is that of the
/// element's coordinates in `strided`, with the index in place of the coordinate along `dim`. Threads share
/// the rows of the last dimension.
template <class Body>
void for_each_indexed(const Tensor& index, int64_t dim, const Tensor& strided, const Body& body) {
  const IndexValues ids(index);
  const int last = index.ndim() - 1;
  const int64_t columns = index.shape()[last], rows = columns == 0 ? 0 : index.numel() / columns;
  const int64_t step = strided.strides()[dim], column_step = dim == last ? 0 : strided.strides()[last];
  parallel_for(rows, 1 + grain_elements / std::max<int64_t>(columns, 1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t base = 0, rest = row;
      for (int i = last - 1; i >= 0; --i) {
        const int64_t coordinate = rest % index.shape()[i];
        rest /= index.shape()[i];
        if (i != dim) base += coordinate * strided.strides()[i];
      }
      for (int64_t j = 0; j < columns; ++j) {
        const int64_t element = row * columns + j;
        body(element, base + j * column_step + ids[element] * step);
      }
    }
  });
}

/// Calls `body` with a null pointer to an unsigned type of the element's width.
template <class Body>
void by_width(DType dtype, const Body& body) {
  switch (size_of(dtype)) {
    case 8:
      return body(static_cast<uint64_t*>(nullptr));
    case 4:
      return body(static_cast<uint32_t*>(nullptr));
    case 2:
      return body(static_cast<uint16_t*>(nullptr));
    default:
      return body(static_cast<uint8_t*>(nullptr));
  }
}

/// The positions of each id in rising order, as linked lists: first[id], then next[position]; -1 ends a list.
struct Chains {
  std::vector<int64_t> first, next, present;  // present: ids that occur
  Chains(const Tensor& index, int64_t limit) : first(limit, -1), next(index.numel()) {
    const IndexValues ids(index);
    for (int64_t i = index.numel() - 1; i >= 0; --i) {
      int64_t& head = first[ids[i]];
      if (head < 0) present.push_back(ids[i]);
      next[i] = head;
      head = i;
    }
  }
};

/// Adds in blocks of 64 columns of one row of `out`. Successive blocks are of one range of columns, so that a
/// thread has many of them.
template <class Source, class T>
void add_rows(const Tensor& source, int64_t dim, const Tensor& index, const Tensor& out) {
  using Sum = accumulator_of<T>;
  constexpr int64_t width = 64;
  const AroundDim rows(source, dim), targets(out, dim);
  const Chains chains(index, targets.count);
  const int64_t present = static_cast<int64_t>(chains.present.size()), inner = rows.inner;
  const int64_t blocks = (inner + width - 1) / width;
  const Source* from = static_cast<const Source*>(source.raw_data());
  T* to = static_cast<T*>(out.raw_data());
  parallel_for(rows.outer * blocks * present, grain_elements / width, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t id = chains.present[item % present], block = item / present % blocks,
                    o = item / present / blocks;
      const int64_t column = block * width, columns = std::min(width, inner - column);
      Sum sum[width] = {};
      for (int64_t i = chains.first[id]; i >= 0; i = chains.next[i]) {
        const Source* row = from + (o * rows.count + i) * inner + column;
        for (int64_t j = 0; j < columns; ++j) sum[j] += static_cast<Sum>(row[j]);
      }
      T* target = to + (o * targets.count + id) * inner + column;
      for (int64_t j = 0; j < columns; ++j) target[j] = static_cast<T>(static_cast<Sum>(target[j]) + sum[j]);
    }
  });
}

/// The positions of an index, in ranges of 2^shift ids and in rising order within each.
struct IdRanges {
  int shift = 0;
  std::vector<int64_t> starts, positions;
  /// As many ranges as threads at least, so that each has some; none whose sums leave the cache.
  IdRanges(const IndexValues& ids, int64_t n, int64_t limit) {
    while (shift < 16 && (limit >> (shift + 1)) >= num_threads()) ++shift;
    while ((limit >> shift) > 4096) ++shift;
    starts.assign(static_cast<size_t>((limit >> shift) + 2), 0);
    for (int64_t i = 0; i < n; ++i) ++starts[(ids[i] >> shift) + 1];
    for (size_t r = 1; r < starts.size(); ++r) starts[r] += starts[r - 1];
    std::vector<int64_t> next(starts.begin(), starts.end() - 1);
    positions.resize(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) positions[next[ids[i] >> shift]++] = i;
  }
  int64_t count() const { return std::ssize(starts) - 1; }
};

/// The same for few columns: the sums of a range of ids, in order, and then the rows of `out` that have one.
/// Threads share the ranges, so that the bits do not depend on their number.
template <class Source, class T>
void add_narrow_rows(const Tensor& source, int64_t dim, const Tensor& index, const Tensor& out) {
  using Sum = accumulator_of<T>;
  const AroundDim rows(source, dim), targets(out, dim);
  const IndexValues ids(index);
  const int64_t n = rows.count, inner = rows.inner, limit = targets.count;
  const IdRanges ranges(ids, n, limit);
  const Source* const from = static_cast<const Source*>(source.raw_data());
  T* const to = static_cast<T*>(out.raw_data());
  parallel_for(rows.outer * ranges.count(), 1 + grain_elements * ranges.count() / (n * inner),
               [&](int64_t begin, int64_t end) {
                 const int64_t width = std::min(limit, int64_t{1} << ranges.shift);
                 std::vector<Sum> sums(static_cast<size_t>(width * inner));
                 std::vector<char> present(static_cast<size_t>(width));
                 for (int64_t item = begin; item < end; ++item) {
                   const int64_t o = item / ranges.count(), range = item % ranges.count();
                   const int64_t low = range << ranges.shift, high = std::min(limit, low + width);
                   const Source* const values = from + o * n * inner;
                   T* const target = to + (o * limit + low) * inner;
                   const std::span positions(ranges.positions.data() + ranges.starts[range],
                                             ranges.positions.data() + ranges.starts[range + 1]);
                   for (const int64_t i : positions) {
                     const int64_t id = ids[i] - low;
                     present[id] = 1;
                     for (int64_t j = 0; j < inner; ++j)
                       sums[id * inner + j] += static_cast<Sum>(values[i * inner + j]);
                   }
                   const auto add = [&](int64_t id) {
                     if (!std::exchange(present[id], 0)) return;
                     for (int64_t j = id * inner; j < (id + 1) * inner; ++j)
                       target[j] =
                           static_cast<T>(static_cast<Sum>(target[j]) + std::exchange(sums[j], Sum(0)));
                   };
                   if (high - low <= 8 * std::ssize(positions))
                     for (int64_t id = 0; id < high - low; ++id) add(id);
                   else
                     for (const int64_t i : positions) add(ids[i] - low);
                 }
               });
}

/// Adds by the method for the width of the rows.
template <class Source, class T>
void add_any_rows(const Tensor& source, int64_t dim, const Tensor& index, const Tensor& out) {
  constexpr int64_t narrow = 8;
  if (AroundDim(source, dim).inner <= narrow)
    add_narrow_rows<Source, T>(source, dim, index, out);
  else
    add_rows<Source, T>(source, dim, index, out);
}

template <class T, class Combine>
void scatter_combined(const Tensor& source, const Tensor& index, const Tensor& out, Combine combine) {
  using Sum = accumulator_of<T>;
  const T* from = static_cast<const T*>(source.raw_data());
  T* to = static_cast<T*>(out.raw_data());
  for_each_indexed(index, index.ndim() - 1, out, [&](int64_t element, int64_t offset) {
    to[offset] = static_cast<T>(combine(static_cast<Sum>(to[offset]), static_cast<Sum>(from[element])));
  });
}

/// `combine(element, value)` in the type that sums of `out` are in.
template <class Combine>
void scatter_by_dtype(const Tensor& source, const Tensor& index, const Tensor& out, Combine combine) {
  switch (out.dtype()) {
    case f64:
      return scatter_combined<double>(source, index, out, combine);
    case f32:
      return scatter_combined<float>(source, index, out, combine);
    case bf16:
      return scatter_combined<bfloat16>(source, index, out, combine);
    case f16:
      return scatter_combined<float16>(source, index, out, combine);
    case i64:
      return scatter_combined<int64_t>(source, index, out, combine);
    default:
      return scatter_combined<int32_t>(source, index, out, combine);
  }
}

}  // namespace

void check_indices(const char* where, const Tensor& index, int64_t limit) {
  const IndexValues ids(index);
  for (int64_t i = 0; i < index.numel(); ++i)
    if (ids[i] < 0 || ids[i] >= limit) [[unlikely]]
      throw IndexError(text(where, ": index ", ids[i], " at position ", position_of(i, index.shape()),
                            " is outside [0, ", limit, ")"));
}

void index_select(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& out) {
  const IndexValues ids(index);
  const AroundDim table(x, dim), rows(out, dim);
  const int64_t bytes = rows.inner * size_of(x.dtype());
  const char* from = static_cast<const char*>(x.raw_data());
  char* to = static_cast<char*>(out.raw_data());
  parallel_for(rows.outer * rows.count, 1 + grain_elements * 4 / (bytes + 1),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   const int64_t o = row / rows.count, id = ids[row % rows.count];
                   std::memcpy(to + row * bytes, from + (o * table.count + id) * bytes, bytes);
                 }
               });
}

void index_add(const Tensor& source, int64_t dim, const Tensor& index, const Tensor& out) {
  switch (source.dtype()) {
    case f64:
      return add_any_rows<double, double>(source, dim, index, out);
    case f32:
      return add_any_rows<float, float>(source, dim, index, out);
    case bf16:
      return out.dtype() == f32 ? add_any_rows<bfloat16, float>(source, dim, index, out)
                                : add_any_rows<bfloat16, bfloat16>(source, dim, index, out);
    case f16:
      return out.dtype() == f32 ? add_any_rows<float16, float>(source, dim, index, out)
                                : add_any_rows<float16, float16>(source, dim, index, out);
    case i64:
      return add_any_rows<int64_t, int64_t>(source, dim, index, out);
    default:
      return add_any_rows<int32_t, int32_t>(source, dim, index, out);
  }
}

void gather(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& out) {
  by_width(x.dtype(), [&](auto* element_type) {
    using T = std::remove_pointer_t<decltype(element_type)>;
    const T* from = static_cast<const T*>(x.raw_data());
    T* to = static_cast<T*>(out.raw_data());
    for_each_indexed(index, dim, x, [&](int64_t element, int64_t offset) { to[element] = from[offset]; });
  });
}

void scatter(const Tensor& source, const Tensor& index, const Tensor& out) {
  by_width(out.dtype(), [&](auto* element_type) {
    using T = std::remove_pointer_t<decltype(element_type)>;
    const T* from = static_cast<const T*>(source.raw_data());
    T* to = static_cast<T*>(out.raw_data());
    for_each_indexed(index, index.ndim() - 1, out,
                     [&](int64_t element, int64_t offset) { to[offset] = from[element]; });
  });
}

void scatter_add(const Tensor& source, const Tensor& index, const Tensor& out) {
  scatter_by_dtype(source, index, out, [](auto element, auto value) { return element + value; });
}

void scatter_multiply(const Tensor& source, const Tensor& index, const Tensor& out) {
  scatter_by_dtype(source, index, out, [](auto element, auto value) { return element * value; });
}

}  // namespace tessera::kernels::cpu
