#pragma once  // internal

#include <string>

#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// The values of a contiguous i64 or i32 index. The constructor throws DTypeError for any other dtype.
class IndexValues {
 public:
  explicit IndexValues(const Tensor& index)
      : wide_(index.dtype() == i64 ? index.data<int64_t>() : nullptr),
        narrow_(index.dtype() == i64 ? nullptr : index.data<int32_t>()) {}
  int64_t operator[](int64_t i) const { return wide_ ? wide_[i] : narrow_[i]; }

 private:
  const int64_t* wide_;
  const int32_t* narrow_;
};

/// The coordinates of an element of a contiguous tensor, as errors print them: "(1, 0, 2)".
inline std::string position_of(int64_t element, const Shape& shape) {
  Shape position = shape;
  for (int i = shape.ndim() - 1; i >= 0; --i) {
    position[i] = element % shape[i];
    element /= shape[i];
  }
  return to_string(position);
}

}  // namespace tessera::kernels::cpu
