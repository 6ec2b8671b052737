#include "tensor/channels_last.h"

namespace tessera {

bool is_channels_last(const Tensor& x) {
  if (x.ndim() < 3 || x.is_contiguous()) return false;
  const Shape& shape = x.shape();
  const Strides& strides = x.strides();
  if (shape[1] != 1 && strides[1] != 1) return false;
  int64_t expected = shape[1];
  for (int i = x.ndim() - 1; i >= 2; --i) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return shape[0] == 1 || strides[0] == expected;
}

Tensor channels_innermost(const Tensor& x) {
  Shape order{0};
  for (int i = 2; i < x.ndim(); ++i) order.push_back(i);
  order.push_back(1);
  return x.permute(order);
}

Tensor channels_second(const Tensor& x) {
  Shape order{0, x.ndim() - 1};
  for (int i = 2; i < x.ndim(); ++i) order.push_back(i - 1);
  return x.permute(order);
}

Tensor empty_in_layout(bool channels_last, const Shape& shape, DType dtype, Device device) {
  if (!channels_last) return Tensor::empty(shape, dtype, device);
  Shape stored{shape[0]};
  for (int i = 2; i < shape.ndim(); ++i) stored.push_back(shape[i]);
  stored.push_back(shape[1]);
  return channels_second(Tensor::empty(stored, dtype, device));
}

Tensor in_layout(bool channels_last, const Tensor& x) {
  if (x.is_contiguous() ? !channels_last : channels_last && is_channels_last(x)) return x;
  if (!channels_last) return x.contiguous();
  const Tensor copy = empty_in_layout(true, x.shape(), x.dtype(), x.device());
  copy.copy_from(x);
  return copy;
}

}  // namespace tessera
