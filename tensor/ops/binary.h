#pragma once
#include "tensor/tensor.h"
namespace tessera::ops {
/// a + b.
Tensor add(const Tensor& a, const Tensor& b);
/// a - b.
Tensor sub(const Tensor& a, const Tensor& b);
/// a * b.
Tensor mul(const Tensor& a, const Tensor& b);
/// a += b.
void add_(const Tensor& a, const Tensor& b);
/// a *= b.
void mul_(const Tensor& a, const Tensor& b);
}  // namespace tessera::ops
