#include "tensor/cpu/elementwise/copy.h"

#include <cstring>

#include "tensor/strided_loop.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t grain_bytes = 1 << 16;

template <class T>
void copy_elements(const Tensor& source, const Tensor& target) {
  const StridedLoop<2> loop(target.shape(), {&source.strides(), &target.strides()});
  const T* from = static_cast<const T*>(source.raw_data());
  T* to = static_cast<T*>(target.raw_data());
  const int64_t inner = loop.inner(), from_step = loop.strides[0][loop.ndim - 1],
                to_step = loop.strides[1][loop.ndim - 1];
  parallel_for(loop.rows(), 1 + grain_bytes / static_cast<int64_t>(inner * sizeof(T)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   int64_t offsets[2];
                   loop.row_offsets(row, offsets);
                   const T* a = from + offsets[0];
                   T* b = to + offsets[1];
                   if (from_step == 1 && to_step == 1)
                     std::memcpy(b, a, inner * sizeof(T));
                   else
                     for (int64_t i = 0; i < inner; ++i) b[i * to_step] = a[i * from_step];
                 }
               });
}

}  // namespace

void copy(const Tensor& source, const Tensor& target) {
  if (target.numel() == 0) return;
  if (source.is_contiguous() && target.is_contiguous()) {
    const char* from = static_cast<const char*>(source.raw_data());
    char* to = static_cast<char*>(target.raw_data());
    parallel_for(target.nbytes(), 4 * grain_bytes,
                 [&](int64_t begin, int64_t end) { std::memmove(to + begin, from + begin, end - begin); });
    return;
  }
  switch (size_of(target.dtype())) {
    case 8:
      return copy_elements<uint64_t>(source, target);
    case 4:
      return copy_elements<uint32_t>(source, target);
    case 2:
      return copy_elements<uint16_t>(source, target);
    default:
      return copy_elements<uint8_t>(source, target);
  }
}

void zero(const Tensor& target) {
  if (target.numel() == 0) return;
  if (target.is_contiguous()) {
    char* to = static_cast<char*>(target.raw_data());
    parallel_for(target.nbytes(), 4 * grain_bytes,
                 [&](int64_t begin, int64_t end) { std::memset(to + begin, 0, end - begin); });
    return;
  }
  const int64_t width = size_of(target.dtype());
  const StridedLoop<1> loop(target.shape(), {&target.strides()});
  char* base = static_cast<char*>(target.raw_data());
  for (int64_t row = 0; row < loop.rows(); ++row) {
    int64_t offsets[1];
    loop.row_offsets(row, offsets);
    for (int64_t i = 0; i < loop.inner(); ++i)
      std::memset(base + (offsets[0] + i * loop.strides[0][loop.ndim - 1]) * width, 0, width);
  }
}

}  // namespace tessera::kernels::cpu
