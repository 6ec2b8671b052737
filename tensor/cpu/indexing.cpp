#include "tensor/cpu/indexing.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tensor/cpu/loops/index_values.h"
#include "tensor/threads/parallel.h"
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

template <class T>
void scatter_add_typed(const Tensor& source, const Tensor& index, const Tensor& out) {
  using Sum = accumulator_of<T>;
  const T* from = static_cast<const T*>(source.raw_data());
  T* to = static_cast<T*>(out.raw_data());
  for_each_indexed(index, index.ndim() - 1, out, [&](int64_t element, int64_t offset) {
    to[offset] = static_cast<T>(static_cast<Sum>(to[offset]) + static_cast<Sum>(from[element]));
  });
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
      return add_rows<double, double>(source, dim, index, out);
    case f32:
      return add_rows<float, float>(source, dim, index, out);
    case bf16:
      return out.dtype() == f32 ? add_rows<bfloat16, float>(source, dim, index, out)
                                : add_rows<bfloat16, bfloat16>(source, dim, index, out);
    case f16:
      return out.dtype() == f32 ? add_rows<float16, float>(source, dim, index, out)
                                : add_rows<float16, float16>(source, dim, index, out);
    case i64:
      return add_rows<int64_t, int64_t>(source, dim, index, out);
    default:
      return add_rows<int32_t, int32_t>(source, dim, index, out);
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
  switch (out.dtype()) {
    case f64:
      return scatter_add_typed<double>(source, index, out);
    case f32:
      return scatter_add_typed<float>(source, index, out);
    case bf16:
      return scatter_add_typed<bfloat16>(source, index, out);
    case f16:
      return scatter_add_typed<float16>(source, index, out);
    case i64:
      return scatter_add_typed<int64_t>(source, index, out);
    default:
      return scatter_add_typed<int32_t>(source, index, out);
  }
}

}  // namespace tessera::kernels::cpu
