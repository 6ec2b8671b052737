#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tensor/device.h"
#include "tensor/error.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/tensor.h"

/// What tests on a device compare with the CPU.
namespace tessera::test {

/// The device that TESSERA_TEST_DEVICE names.
inline Device device_under_test() {
  const char* name = std::getenv("TESSERA_TEST_DEVICE");
  REQUIRE_MESSAGE(name != nullptr, "TESSERA_TEST_DEVICE names no device");
  return parse_device(name);
}

/// Whether both have the same shape, dtype and bytes, wherever they are.
inline bool have_same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(cpu()).contiguous(), y = b.to(cpu()).contiguous();
  return x.shape() == y.shape() && x.dtype() == y.dtype() &&
         (x.numel() == 0 || std::memcmp(x.raw_data(), y.raw_data(), static_cast<size_t>(x.nbytes())) == 0);
}

/// The largest |a - b| over max(1, the largest |b|), wherever they are.
inline double relative_difference(const Tensor& a, const Tensor& b) {
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

/// The text of the error that `body` throws; empty for none.
template <class Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Whether the text has the part; a failed check prints both.
inline bool says(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  CHECK_MESSAGE(found, "expected '", part, "' in: ", text);
  return found;
}

}  // namespace tessera::test
