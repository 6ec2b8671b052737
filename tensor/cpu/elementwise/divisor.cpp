#include "tensor/cpu/elementwise/divisor.h"

#include "tensor/strided_loop.h"

namespace tessera::kernels::cpu {
namespace {

/// The first element that is 0, in row-major order; -1 for none.
template <class T>
int64_t first_zero(const Tensor& x) {
  const StridedLoop<1> loop(x.shape(), {&x.strides()});
  const T* const values = static_cast<const T*>(x.raw_data());
  const int64_t inner = loop.inner(), step = loop.strides[0][loop.ndim - 1], rows = loop.rows();
  for (int64_t row = 0; row < rows; ++row) {
    int64_t at[1];
    loop.row_offsets(row, at);
    for (int64_t i = 0; i < inner; ++i)
      if (values[at[0] + i * step] == T(0)) return row * inner + i;
  }
  return -1;
}

/// Of integers and bool, of which a 0 has all bits 0.
int64_t first_zero_of_width(const Tensor& x) {
  switch (size_of(x.dtype())) {
    case 8:
      return first_zero<uint64_t>(x);
    case 4:
      return first_zero<uint32_t>(x);
    default:
      return first_zero<uint8_t>(x);
  }
}

}  // namespace

void check_divisor(const char* where, const Tensor& divisor) {
  if (divisor.numel() == 0) return;
  const int64_t zero = first_zero_of_width(divisor);
  require<ValueError>(zero < 0, where, ": the divisor's element ", zero, " is 0; b is ", describe(divisor));
}

}  // namespace tessera::kernels::cpu
