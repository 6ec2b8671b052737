#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tensor/device.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/tensor.h"

// Shared by the tests of this folder.

/// The device that TESSERA_TEST_DEVICE names.
inline tessera::Device test_device() {
  const char* name = std::getenv("TESSERA_TEST_DEVICE");
  REQUIRE_MESSAGE(name != nullptr, "TESSERA_TEST_DEVICE names no device");
  return tessera::parse_device(name);
}

/// Whether both have the same bytes, wherever they are.
inline bool same_bits_on_cpu(const tessera::Tensor& a, const tessera::Tensor& b) {
  const tessera::Tensor x = a.to(tessera::cpu()).contiguous(), y = b.to(tessera::cpu()).contiguous();
  return x.shape() == y.shape() && x.dtype() == y.dtype() &&
         (x.numel() == 0 || std::memcmp(x.raw_data(), y.raw_data(), static_cast<size_t>(x.nbytes())) == 0);
}

/// The largest |a - b| over max(1, the largest |b|), wherever they are.
inline double relative_difference(const tessera::Tensor& a, const tessera::Tensor& b) {
  using namespace tessera;
  REQUIRE(a.shape() == b.shape());
  const Tensor x = ops::cast(a.to(cpu()), f64).contiguous(), y = ops::cast(b.to(cpu()), f64).contiguous();
  double largest = 0, size = 1;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double p = x.data<double>()[i], q = y.data<double>()[i];
    if (!(p == q)) largest = p != p || q != q ? HUGE_VAL : std::max(largest, std::abs(p - q));
    size = std::max(size, std::abs(q));
  }
  return largest / size;
}
