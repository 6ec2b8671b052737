#include <doctest/doctest.h>

#include <cmath>

#include "nn/init.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "tensor/error.h"
#include "tensor/ops/elementwise/cast.h"

using namespace tessera;

namespace {

Tensor full_tensor(const init::Initializer& initializer, const Shape& shape, uint64_t key = 11) {
  const Tensor t = Tensor::empty(shape, f64);
  initializer.fill(t, key, shape);
  return t;
}

struct Moments {
  double mean, deviation;
};

Moments moments(const Tensor& t) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < t.numel(); ++i) sum += t.data<double>()[i];
  const double mean = sum / static_cast<double>(t.numel());
  for (int64_t i = 0; i < t.numel(); ++i) squares += std::pow(t.data<double>()[i] - mean, 2);
  return {mean, std::sqrt(squares / static_cast<double>(t.numel()))};
}

}  // namespace

TEST_CASE("init: any range, in any order, has the values of the full tensor") {
  const Shape shape{7, 9};
  for (const init::Initializer& initializer :
       {init::normal(0.02), init::uniform(-1, 1), init::truncated_normal(0.5), init::xavier_uniform(),
        init::kaiming_normal(), init::constant(3)}) {
    CAPTURE(initializer.description());
    const Tensor all = full_tensor(initializer, shape);
    for (const auto& [first, count] :
         {std::pair<int64_t, int64_t>{40, 23}, {0, 1}, {3, 17}, {61, 2}, {5, 0}}) {
      const Tensor range = Tensor::empty({count}, f64);
      initializer.fill(range, 11, shape, first);
      for (int64_t i = 0; i < count; ++i) CHECK(range.data<double>()[i] == all.data<double>()[first + i]);
    }
  }
}

TEST_CASE("init: a constant of an integer or bool buffer is whole") {
  const auto filled = [](const init::Initializer& initializer, DType dtype) {
    const Tensor out = Tensor::empty({2}, dtype);
    initializer.fill(out, 1, {2}, 0);
    return out.to(f64).select(0, 1).item();
  };
  for (const DType dtype : {i64, i32, u8}) {
    CHECK(filled(init::constant(3), dtype) == 3);
    CHECK(filled(init::zeros(), dtype) == 0);
    CHECK(filled(init::ones(), dtype) == 1);
    CHECK_THROWS_WITH_AS(filled(init::constant(2.5), dtype), doctest::Contains("whole number"), ValueError);
  }
  CHECK(filled(init::constant(3), boolean) == 1);
  CHECK(filled(init::zeros(), boolean) == 0);
}

TEST_CASE("init: distributions have the moments of their definitions") {
  const Shape shape{300, 200};  // fan_out 300, fan_in 200
  const auto close = [](double value, double expected) {
    return std::abs(value - expected) < 0.02 * std::abs(expected);
  };
  CHECK(close(moments(full_tensor(init::normal(0.5, 3), shape)).mean, 3));
  CHECK(close(moments(full_tensor(init::normal(0.5, 3), shape)).deviation, 0.5));
  CHECK(close(moments(full_tensor(init::uniform(1, 3), shape)).deviation, 2 / std::sqrt(12.0)));
  CHECK(close(moments(full_tensor(init::xavier_normal(2), shape)).deviation, 2 * std::sqrt(2.0 / 500)));
  CHECK(close(moments(full_tensor(init::xavier_uniform(), shape)).deviation, std::sqrt(2.0 / 500)));
  CHECK(close(moments(full_tensor(init::kaiming_uniform(), shape)).deviation, std::sqrt(2.0 / 200)));
  const Tensor cut = full_tensor(init::truncated_normal(1, 0, 2), shape);
  for (int64_t i = 0; i < cut.numel(); ++i) REQUIRE(std::abs(cut.data<double>()[i]) <= 2);
  CHECK(close(moments(cut).deviation, 0.8796));  // of a standard normal cut at 2
}

TEST_CASE("init: orthogonal rows (or columns, if fewer) are orthonormal") {
  for (const Shape& shape : {Shape{5, 8}, Shape{8, 5}}) {
    const Tensor q = full_tensor(init::orthogonal(), shape);
    const int64_t rows = shape[0], columns = shape[1], few = std::min(rows, columns);
    const bool by_row = rows <= columns;
    for (int64_t a = 0; a < few; ++a)
      for (int64_t b = 0; b < few; ++b) {
        double dot = 0;
        for (int64_t i = 0; i < std::max(rows, columns); ++i)
          dot += by_row ? q.data<double>()[a * columns + i] * q.data<double>()[b * columns + i]
                        : q.data<double>()[i * columns + a] * q.data<double>()[i * columns + b];
        CHECK(std::abs(dot - (a == b ? 1 : 0)) < 1e-12);
      }
  }
}

TEST_CASE("init: ranges outside the shape are refused") {
  const Tensor range = Tensor::empty({5}, f64);
  CHECK_THROWS_AS(init::normal(1).fill(range, 0, {2, 3}, 4), ShapeError);
  CHECK_THROWS_WITH_AS(init::orthogonal().fill(range, 0, {2, 3}),
                       doctest::Contains("expected the full tensor"), ShapeError);
  CHECK_THROWS_AS(init::xavier_normal().fill(range, 0, {5}), ShapeError);
  CHECK_THROWS_AS(init::uniform(1, 0), ValueError);
}

TEST_CASE("init: a filling function of (index, shape) fills every dtype, half types rounded from f32") {
  const init::Element third = [](int64_t i, const Shape& shape) {
    return static_cast<double>(static_cast<float>(i + 1) / static_cast<float>(3 * shape[0]));
  };
  const init::Initializer initializer = init::elementwise(third);
  const Shape shape{5, 7};
  const Tensor exact = Tensor::empty(shape, f32);
  initializer.fill(exact, 0, shape);
  CHECK(exact.data<float>()[6] == 7.0f / 15.0f);
  for (const DType dtype : {f64, bf16, f16}) {
    CAPTURE(dtype);
    const Tensor t = Tensor::empty(shape, dtype), rounded = ops::cast(exact, dtype);
    initializer.fill(t, 0, shape);
    for (int64_t i = 0; i < t.numel(); ++i)
      REQUIRE(ops::cast(t, f64).data<double>()[i] == ops::cast(rounded, f64).data<double>()[i]);
  }
  const init::Initializer count =
      init::elementwise([](int64_t i, const Shape&) { return static_cast<double>(i) + 0x1p40; });
  const Tensor ids = Tensor::empty({4}, i64);
  count.fill(ids, 0, {9}, 5);
  CHECK(ids.data<int64_t>()[3] == (int64_t{1} << 40) + 8);
  CHECK_THROWS_AS(count.fill(Tensor::empty({4}, i32), 0, {4}), ValueError);
  CHECK_THROWS_AS(initializer.fill(Tensor::empty(shape, i64), 0, shape), ValueError);
}

TEST_CASE("init: a user-defined initializer writes f32, whatever the dtype") {
  const init::Initializer squares("squares", [](const Tensor& out, uint64_t, const Shape&, int64_t first) {
    for (int64_t i = 0; i < out.numel(); ++i)
      out.data<float>()[i] = static_cast<float>((first + i) * (first + i));
  });
  for (const DType dtype : {f64, f32, bf16, f16, i64, i32, u8, boolean}) {
    CAPTURE(dtype);
    const Tensor t = Tensor::empty({3}, dtype);
    squares.fill(t, 0, {5}, 1);
    CHECK(ops::cast(t, f64).data<double>()[2] == (dtype == boolean ? 1 : 9));
  }
}

TEST_CASE("linear: the initial weights are PyTorch's, uniform within 1 / sqrt(in), the bias too") {
  nn::Linear layer({.in = 100, .out = 300});
  nn::materialize(layer, cpu(), 3);
  for (const Variable* x : {&layer.weight, layer.bias}) {
    const Tensor t = ops::cast(x->value(), f64);
    double largest = 0;
    for (int64_t i = 0; i < t.numel(); ++i) largest = std::max(largest, std::abs(t.data<double>()[i]));
    CHECK(largest <= 0.1);
    CHECK(largest > 0.098);
    CHECK(std::abs(moments(t).deviation - 0.1 / std::sqrt(3.0)) < 0.004);
  }
  CHECK(std::abs(moments(full_tensor(init::kaiming_uniform(std::sqrt(5.0)), {30, 100})).deviation -
                 0.1 / std::sqrt(3.0)) < 0.002);
}
