#pragma once

#include <cmath>
#include <cstring>

#include "tensor/tensor.h"

// Tensors for tests: values made without the library's generators and compared without its arithmetic.

/// Multiples of 1/128 in [-1, 1), which every floating type holds exactly; the same for the same seed.
inline tessera::Tensor random_tensor(const tessera::Shape& shape, tessera::DType dtype, uint64_t seed) {
  using namespace tessera;
  const Tensor x = Tensor::empty(shape, dtype);
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (int64_t i = 0; i < x.numel(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double value = static_cast<double>(static_cast<int64_t>(state >> 56) - 128) / 128;
    if (dtype == f64) x.data<double>()[i] = value;
    if (dtype == f32) x.data<float>()[i] = static_cast<float>(value);
    if (dtype == bf16) x.data<bfloat16>()[i] = bfloat16(static_cast<float>(value));
    if (dtype == f16) x.data<float16>()[i] = float16(static_cast<float>(value));
  }
  return x;
}

/// A contiguous f64 copy of a floating tensor.
inline tessera::Tensor to_f64(const tessera::Tensor& tensor) {
  using namespace tessera;
  const Tensor x = tensor.contiguous(), y = Tensor::empty(x.shape(), f64);
  for (int64_t i = 0; i < x.numel(); ++i) {
    double& value = y.data<double>()[i];
    if (x.dtype() == f64) value = x.data<double>()[i];
    if (x.dtype() == f32) value = x.data<float>()[i];
    if (x.dtype() == bf16) value = static_cast<float>(x.data<bfloat16>()[i]);
    if (x.dtype() == f16) value = static_cast<float>(x.data<float16>()[i]);
  }
  return y;
}

/// The largest absolute difference of two floating tensors of one shape; infinite where one has a NaN.
inline double largest_difference(const tessera::Tensor& a, const tessera::Tensor& b) {
  if (a.shape() != b.shape()) return INFINITY;
  const tessera::Tensor x = to_f64(a), y = to_f64(b);
  double largest = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double difference = std::abs(x.data<double>()[i] - y.data<double>()[i]);
    if (!(difference <= largest)) largest = std::isnan(difference) ? INFINITY : difference;
  }
  return largest;
}

/// Whether two tensors have the same shape, dtype and bytes.
inline bool same_bits(const tessera::Tensor& a, const tessera::Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const tessera::Tensor x = a.contiguous(), y = b.contiguous();
  return x.numel() == 0 || std::memcmp(x.raw_data(), y.raw_data(), x.nbytes()) == 0;
}
