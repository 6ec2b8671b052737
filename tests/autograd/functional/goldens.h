#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "autograd/variable.h"
#include "tensor/io/safetensors.h"

namespace tessera::test {

/// A tensor of the file that make_goldens.py writes.
inline Tensor functional_golden(const std::string& folder, const std::string& name) {
  return io::SafetensorsFile(folder + "/autograd/functional/goldens.safetensors").read(name);
}

/// Checks shape and values: f64 sums of few terms in another order, so 1e-13 of the largest value.
inline void check_equal(const Variable& x, const Tensor& expected) {
  REQUIRE(x.shape() == expected.shape());
  const Tensor values = x.value().contiguous();
  double largest = 1;
  for (int64_t i = 0; i < expected.numel(); ++i)
    largest = std::max(largest, std::abs(expected.data<double>()[i]));
  for (int64_t i = 0; i < expected.numel(); ++i)
    CHECK(std::abs(values.data<double>()[i] - expected.data<double>()[i]) <= 1e-13 * largest);
}

}  // namespace tessera::test
