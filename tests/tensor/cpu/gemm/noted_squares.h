#pragma once

#include <doctest/doctest.h>

#include <optional>

#include "tensor/ops/matmul.h"
#include "tensor/threads/parallel.h"
#include "tests/tensor/test_values.h"

namespace tessera {

/// Checks that the squares noted for a gradient dy^T x of this size are those of its values, the same bits on
/// any number of threads, and that they are dropped with the next version.
inline void check_noted_squares(DType dtype, int64_t rows, int64_t in, int64_t out) {
  INFO(dtype, ", rows ", rows, ", in ", in, ", out ", out);
  const Tensor x = random_tensor({rows, in}, dtype, 1), dy = random_tensor({rows, out}, dtype, 2);
  const int before = num_threads();
  const Tensor plain = Tensor::empty({out, in}, f32);
  ops::matmul_out(plain, dy.transpose(0, 1), x);
  CHECK_FALSE(plain.noted_squares().has_value());
  std::optional<double> first, first_twice;
  for (const int threads : {1, 2, 5}) {
    set_num_threads(threads);
    const ops::ProductSquaresScope scope;
    const Tensor dw = Tensor::empty({out, in}, f32);
    ops::matmul_out(dw, dy.transpose(0, 1), x);
    CHECK(same_bits(dw, plain));
    REQUIRE(dw.noted_squares().has_value());
    if (!first) first = dw.noted_squares();
    CHECK(*dw.noted_squares() == *first);
    double sum = 0;
    for (int64_t i = 0; i < dw.numel(); ++i)
      sum += static_cast<double>(dw.data<float>()[i]) * static_cast<double>(dw.data<float>()[i]);
    CHECK(*first == doctest::Approx(sum).epsilon(dtype == f32 ? 1e-12 : 1e-10));
    ops::matmul_accumulate(dw, dy.transpose(0, 1), x);
    if (!first_twice) first_twice = dw.noted_squares();
    CHECK(dw.noted_squares() == first_twice);
    CHECK(*first_twice == doctest::Approx(4 * sum).epsilon(1e-6));
    CHECK_FALSE(dw.narrow(0, 0, 1).noted_squares().has_value() != (out == 1));
    dw.bump_version();
    CHECK_FALSE(dw.noted_squares().has_value());
  }
  set_num_threads(before);
}

}  // namespace tessera
