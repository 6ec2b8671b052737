#include "tensor/cpu/indexing/advanced_indexing.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tensor/cpu/loops/index_values.h"
#include "tensor/strided_loop.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t grain_elements = 1 << 14;
constexpr int64_t mask_block = 1 << 12;

Shape part_of(const Shape& list, int begin, int end) {
  return Shape(std::span<const int64_t>(list.begin() + begin, list.begin() + end));
}

/// Where element i of some neighbouring dimensions of a tensor lies, in row-major order.
class Offsets {
 public:
  Offsets(const Tensor& x, int begin, int end)
      : shape_(part_of(x.shape(), begin, end)),
        strides_(part_of(x.strides(), begin, end)),
        loop_(shape_, {&strides_}) {}
  int64_t operator[](int64_t i) const {
    int64_t offset = 0;
    for (int d = loop_.ndim - 1; d > 0; --d) {
      offset += i % loop_.extents[d] * loop_.strides[0][d];
      i /= loop_.extents[d];
    }
    return offset + i * loop_.strides[0][0];
  }
  int64_t count() const { return shape_.numel(); }

 private:
  Shape shape_;
  Strides strides_;
  StridedLoop<1> loop_;
};

/// Copies the elements of the last dimensions, from `begin` on, of one tensor to those of another.
class InnerCopy {
 public:
  InnerCopy(const Tensor& to, int to_begin, const Tensor& from, int from_begin)
      : to_strides_(part_of(to.strides(), to_begin, to.ndim())),
        from_strides_(part_of(from.strides(), from_begin, from.ndim())),
        loop_(part_of(to.shape(), to_begin, to.ndim()), {&to_strides_, &from_strides_}),
        rows_(loop_.rows()),
        columns_(loop_.inner()) {}
  int64_t count() const { return rows_ * columns_; }

  template <class T>
  void operator()(T* to, const T* from) const {
    if (rows_ * columns_ == 1) {
      *to = *from;
      return;
    }
    const int64_t to_step = loop_.strides[0][loop_.ndim - 1], from_step = loop_.strides[1][loop_.ndim - 1];
    for (int64_t row = 0; row < rows_; ++row) {
      int64_t at[2];
      loop_.row_offsets(row, at);
      T* const out = to + at[0];
      const T* const in = from + at[1];
      if (columns_ > 1 && to_step == 1 && from_step == 1)
        std::memcpy(out, in, columns_ * sizeof(T));
      else
        for (int64_t j = 0; j < columns_; ++j) out[j * to_step] = in[j * from_step];
    }
  }

 private:
  Strides to_strides_, from_strides_;
  StridedLoop<2> loop_;
  int64_t rows_, columns_;
};

template <class T>
void read_typed(const Tensor& x, int first, int count, const Tensor& positions, const Tensor& out) {
  const Offsets before(x, 0, first), at(x, first, first + count);
  const InnerCopy copy(out, first + positions.ndim(), x, first + count);
  const int64_t n = positions.numel(), inner = copy.count();
  const int64_t* const ids = positions.data<int64_t>();
  const T* const from = static_cast<const T*>(x.raw_data());
  T* const to = static_cast<T*>(out.raw_data());
  parallel_for(before.count() * n, 1 + grain_elements / inner, [&](int64_t begin, int64_t end) {
    int64_t outer = begin / n, i = begin % n, base = before[outer];
    for (int64_t row = begin; row < end; ++row) {
      copy(to + row * inner, from + base + at[ids[i]]);
      if (++i == n) {
        i = 0;
        base = before[++outer];
      }
    }
  });
}

/// Threads share the positions of `out`, not those of `value`: the values of one position are then written by
/// one thread, in order. Each thread reads all of `positions`.
template <class T>
void write_typed(const Tensor& value, const Tensor& positions, int first, int count, const Tensor& out) {
  const Offsets before(out, 0, first), at(out, first, first + count);
  const Offsets value_before(value, 0, first), value_at(value, first, first + positions.ndim());
  const InnerCopy copy(out, first + count, value, first + positions.ndim());
  const int64_t n = positions.numel(), inner = copy.count(), outer = before.count(), limit = at.count();
  const int64_t* const ids = positions.data<int64_t>();
  const T* const from = static_cast<const T*>(value.raw_data());
  T* const to = static_cast<T*>(out.raw_data());
  const int64_t ranges = std::min<int64_t>(
      {limit, outer >= num_threads() ? 1 : num_threads(), 1 + outer * n * inner / grain_elements});
  const int64_t length = (limit + ranges - 1) / ranges;
  parallel_for(outer * ranges, 1 + grain_elements / (n * inner), [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t low = item % ranges * length, high = low + length;
      T* const target = to + before[item / ranges];
      const T* const source = from + value_before[item / ranges];
      for (int64_t i = 0; i < n; ++i)
        if (ids[i] >= low && ids[i] < high) copy(target + at[ids[i]], source + value_at[i]);
    }
  });
}

/// Calls `body.operator()<T>()` with an unsigned type of the elements' width.
template <class Body>
void by_width(DType dtype, const Body& body) {
  switch (size_of(dtype)) {
    case 8:
      return body.template operator()<uint64_t>();
    case 4:
      return body.template operator()<uint32_t>();
    case 2:
      return body.template operator()<uint16_t>();
    default:
      return body.template operator()<uint8_t>();
  }
}

int64_t count_range(const bool* mask, int64_t begin, int64_t end) {
  int64_t sum = 0;
  for (int64_t i = begin; i < end; ++i) sum += mask[i];
  return sum;
}

/// The number of true elements in each block of `mask_block`.
std::vector<int64_t> counts_of_blocks(const Tensor& mask) {
  const int64_t n = mask.numel();
  std::vector<int64_t> counts((n + mask_block - 1) / mask_block);
  const bool* const values = mask.data<bool>();
  parallel_for(std::ssize(counts), 8, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      counts[b] = count_range(values, b * mask_block, std::min(n, (b + 1) * mask_block));
  });
  return counts;
}

}  // namespace

void add_coordinate(const char* where, int entry, const Tensor& index, int64_t extent, bool replace,
                    const Tensor& positions) {
  const IndexValues values(index);
  int64_t* const out = positions.data<int64_t>();
  parallel_for(index.numel(), grain_elements, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t value = values[i];
      if (value < -extent || value >= extent) [[unlikely]]
        throw IndexError(text(where, ": value ", value, " at ", position_of(i, index.shape()),
                              " of the index tensor at position ", entry, " is outside [", -extent, ", ",
                              extent, ")"));
      out[i] = (replace ? 0 : out[i] * extent) + value + (value < 0 ? extent : 0);
    }
  });
}

void true_positions(const Tensor& mask, Tensor& positions) {
  std::vector<int64_t> starts = counts_of_blocks(mask);
  int64_t sum = 0;
  for (int64_t& start : starts) start = std::exchange(sum, sum + start);
  positions = Tensor::empty({sum}, i64);
  const int64_t n = mask.numel();
  const bool* const values = mask.data<bool>();
  int64_t* const out = positions.data<int64_t>();
  parallel_for(std::ssize(starts), 8, [&](int64_t begin, int64_t end) {
    int64_t found[mask_block + 1];  // without a branch, which would be mispredicted half of the time
    for (int64_t b = begin; b < end; ++b) {
      int64_t count = 0;
      for (int64_t i = b * mask_block; i < std::min(n, (b + 1) * mask_block); ++i) {
        found[count] = i;
        count += values[i];
      }
      std::copy_n(found, count, out + starts[b]);
    }
  });
}

void unravel(const Tensor& positions, const Shape& shape, const Tensor& coordinates) {
  const int64_t* const ids = positions.data<int64_t>();
  int64_t* const out = coordinates.data<int64_t>();
  const int ndim = shape.ndim();
  parallel_for(positions.numel(), grain_elements, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t rest = ids[i];
      for (int d = ndim - 1; d >= 0; --d) {
        out[i * ndim + d] = rest % shape[d];
        rest /= shape[d];
      }
    }
  });
}

void read_positions(const Tensor& x, int first, int count, const Tensor& positions, const Tensor& out) {
  if (out.numel() == 0) return;
  by_width(x.dtype(), [&]<class T>() { read_typed<T>(x, first, count, positions, out); });
}

void write_positions(const Tensor& value, const Tensor& positions, int first, int count, const Tensor& out) {
  if (value.numel() == 0) return;
  by_width(out.dtype(), [&]<class T>() { write_typed<T>(value, positions, first, count, out); });
}

}  // namespace tessera::kernels::cpu
