#include "tests/ops/compare.h"

#include <doctest/doctest.h>

#include <limits>

using namespace tessera;
using namespace tessera::test;

TEST_CASE("compare: differences beyond the tolerance are found") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const Tensor expected = Tensor::from({1.0, nan, inf, 0.0});
  CHECK(difference(Tensor::from({1.0 + 1e-13, nan, inf, 1e-14}), expected, 1e-12) == "");
  CHECK(difference(Tensor::from({1.0 + 1e-11, nan, inf, 0.0}), expected, 1e-12) != "");
  CHECK(difference(Tensor::from({1.0, 0.0, inf, 0.0}), expected, 1e-12) != "");
  CHECK(difference(Tensor::from({1.0, nan, -inf, 0.0}), expected, 1e-12) != "");
  CHECK(difference(Tensor::from({1.0, nan, 1e300, 0.0}), expected, 1e-12) != "");
  CHECK(difference(Tensor::from({nan, nan, inf, 0.0}), expected, 1e-12) != "");
  CHECK(difference(Tensor::from({1.0, nan, inf, 0.0}, {2, 2}), expected, 1e-12) != "");
  CHECK(difference(Tensor::from<int64_t>({1, 2}), Tensor::from<int32_t>({1, 2}), 1.0) != "");
  CHECK(difference(Tensor(), expected, 1.0) != "");
}

TEST_CASE("compare: the reference is rounded to the narrower type first") {
  CHECK(difference(Tensor::from({1.0f / 3}), Tensor::from({1.0 / 3}), 0.0) == "");
  CHECK(difference(Tensor::from({std::numeric_limits<float>::infinity()}), Tensor::from({1e60}), 0.0) == "");
}

TEST_CASE("compare: a strided copy holds the same values in another layout") {
  const Tensor x = Tensor::from({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, {2, 3});
  const Tensor copy = strided_copy(x);
  CHECK_FALSE(copy.is_contiguous());
  CHECK(copy.offset() > 0);
  CHECK(f64_values(copy) == f64_values(x));
  CHECK(strided_copy(Tensor::zeros({0, 3}, f64)).numel() == 0);
  CHECK(strided_copy(Tensor::scalar(2.5)).item() == 2.5);
}

TEST_CASE("compare: which dtypes hold a value exactly") {
  const Tensor x = Tensor::from({1.0 + 0x1p-7, 0x1p-100});
  CHECK(holds_exactly(x, bf16));
  CHECK_FALSE(holds_exactly(x, f16));
  CHECK_FALSE(holds_exactly(Tensor::from({1.0 / 3}), f32));
}
