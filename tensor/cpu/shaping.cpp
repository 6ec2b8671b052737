#include "tensor/cpu/shaping.h"

#include <algorithm>
#include <cstring>

#include "tensor/strided_loop.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t grain_elements = 1 << 14;

template <class T>
void flip_elements(const T* from, const Strides& mirrored, const Tensor& out) {
  const StridedLoop<2> loop(out.shape(), {&mirrored, &out.strides()});
  T* to = static_cast<T*>(out.raw_data());
  const int last = loop.ndim - 1;
  parallel_for(loop.rows(), 1 + grain_elements / loop.inner(), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t offsets[2];
      loop.row_offsets(row, offsets);
      for (int64_t i = 0; i < loop.inner(); ++i)
        to[offsets[1] + i * loop.strides[1][last]] = from[offsets[0] + i * loop.strides[0][last]];
    }
  });
}

}  // namespace

void flip(const Tensor& x, unsigned dims, const Tensor& out) {
  if (out.numel() == 0) return;
  // A reversed dimension has a negative stride and starts at its last element.
  Strides mirrored = x.strides();
  int64_t start = 0;
  for (int i = 0; i < x.ndim(); ++i) {
    if (!(dims >> i & 1u)) continue;
    start += (x.shape()[i] - 1) * mirrored[i];
    mirrored[i] = -mirrored[i];
  }
  const char* from = static_cast<const char*>(x.raw_data()) + start * size_of(x.dtype());
  switch (size_of(x.dtype())) {
    case 8:
      return flip_elements(reinterpret_cast<const uint64_t*>(from), mirrored, out);
    case 4:
      return flip_elements(reinterpret_cast<const uint32_t*>(from), mirrored, out);
    case 2:
      return flip_elements(reinterpret_cast<const uint16_t*>(from), mirrored, out);
    default:
      return flip_elements(reinterpret_cast<const uint8_t*>(from), mirrored, out);
  }
}

void triangle(const Tensor& x, int64_t diagonal, bool lower, const Tensor& out) {
  if (out.numel() == 0) return;
  const int64_t rows = x.size(-2), columns = x.size(-1), width = size_of(x.dtype());
  const char* from = static_cast<const char*>(x.raw_data());
  char* to = static_cast<char*>(out.raw_data());
  parallel_for(x.numel() / columns, 1 + grain_elements / columns, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      // tril keeps the row's elements before `cut`, triu those after it.
      const int64_t cut = std::clamp<int64_t>(row % rows + diagonal + (lower ? 1 : 0), 0, columns) * width;
      const int64_t start = row * columns * width, all = columns * width;
      const int64_t kept = lower ? 0 : cut, kept_end = lower ? cut : all;
      std::memset(to + start, 0, kept);
      std::memcpy(to + start + kept, from + start + kept, kept_end - kept);
      std::memset(to + start + kept_end, 0, all - kept_end);
    }
  });
}

}  // namespace tessera::kernels::cpu
