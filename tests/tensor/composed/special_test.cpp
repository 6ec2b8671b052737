// Special functions at points where mathematics gives their values, and refusals.
#include "tensor/composed/elementwise/special.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "tensor/functions.h"
#include "tensor/ops/creation/literal.h"

using namespace tessera;

namespace {

constexpr double pi = std::numbers::pi, zeta3 = 1.2020569031595942, euler = std::numbers::egamma;

double at(Tensor (*function)(const Tensor&), double x) {
  return function(full({}, x, f64)).item();
}
double polygamma_at(int64_t n, double x) {
  return polygamma(n, full({}, x, f64)).item();
}
bool near(double value, double expected) {
  return std::abs(value - expected) <= 4e-15 * std::max(std::abs(expected), 1.0);
}

}  // namespace

TEST_CASE("special functions: known values") {
  CHECK(near(at(atan, 1), pi / 4));
  CHECK(near(at(atan, -std::sqrt(3)), -pi / 3));
  CHECK(near(at(asin, 0.5), pi / 6));
  CHECK(near(at(acos, -0.5), 2 * pi / 3));
  CHECK(at(acos, -1) == pi);
  CHECK(near(at(asinh, 0.75), std::log(2)));
  CHECK(near(at(acosh, 1.25), std::log(2)));
  CHECK(near(at(atanh, 0.6), std::log(2)));
  CHECK(near(at(lgamma, 0.5), 0.5 * std::log(pi)));
  CHECK(near(at(lgamma, -0.5), std::log(2 * std::sqrt(pi))));
  CHECK(near(at(lgamma, 6), std::log(120)));
  CHECK(at(lgamma, 1) == 0);
  CHECK(at(lgamma, 2) == 0);
  CHECK(near(at(digamma, 1), -euler));
  CHECK(near(at(digamma, 0.5), -euler - 2 * std::log(2)));
  CHECK(near(at(digamma, 0.25), -euler - pi / 2 - 3 * std::log(2)));
  CHECK(near(polygamma_at(1, 1), pi * pi / 6));
  CHECK(near(polygamma_at(1, 0.5), pi * pi / 2));
  CHECK(near(polygamma_at(1, -0.5), pi * pi / 2 + 4));
  CHECK(near(polygamma_at(2, 1), -2 * zeta3));
  CHECK(near(polygamma_at(3, 1), std::pow(pi, 4) / 15));
  CHECK(std::isnan(polygamma_at(2, -0x1p21)));
  CHECK(std::isinf(at(lgamma, -3)));
  CHECK(std::isnan(at(digamma, -3)));
}

TEST_CASE("special functions: erfinv inverts erf, also where erf is close to 1") {
  for (const double x : {1e-9, 0.01, 0.4, 0.5, 1.0, 2.5, 4.0}) {
    INFO(x);
    const double y = std::erf(x), back = at(erfinv, y);
    // A rounding step of y is one of x times exp(x^2).
    CHECK(std::abs(back - x) <= 4e-16 * std::exp(x * x) + 4e-16 * x);
  }
}

TEST_CASE("special functions: the next number, among denormals too") {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor from = tensor({0.0f, 0.0f, 1.0f, 1.0f, -1.0f, 1e-45f, std::numeric_limits<float>::max()});
  const Tensor to = tensor({1.0f, -1.0f, 2.0f, 0.0f, 0.0f, 1.0f, inf});
  const Tensor next = nextafter(from, to);
  for (int64_t i = 0; i < from.numel(); ++i) {
    INFO(i);
    CHECK(std::bit_cast<uint32_t>(next.data<float>()[i]) ==
          std::bit_cast<uint32_t>(std::nextafter(from.data<float>()[i], to.data<float>()[i])));
  }
}

TEST_CASE("special functions: two operands at the limits") {
  const auto of_two = [](Tensor (*function)(const Tensor&, const Tensor&), double a, double b) {
    return function(full({}, a, f64), full({}, b, f64)).item();
  };
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(of_two(hypot, 3e200, 4e200) == doctest::Approx(5e200));
  CHECK(of_two(hypot, nan, inf) == inf);
  CHECK(of_two(atan2, 0.0, -0.0) == pi);
  CHECK(of_two(atan2, -0.0, -1.0) == -pi);
  CHECK(near(of_two(atan2, inf, -inf), 3 * pi / 4));
  CHECK(std::signbit(of_two(copysign, 0.0, -1.0)));
}

TEST_CASE("special functions: bad input") {
  const Tensor x = ones({2, 3}), whole = ones({2, 3}, i64);
  CHECK_THROWS_AS(asin(whole), DTypeError);
  CHECK_THROWS_AS(lgamma(ones({2}, boolean)), DTypeError);
  CHECK_THROWS_AS(atan2(whole, whole), DTypeError);
  CHECK_THROWS_AS(hypot(x, ones({4})), ShapeError);
  CHECK_THROWS_AS(nextafter(x.to(bf16), x.to(bf16)), DTypeError);
  CHECK_THROWS_WITH_AS(polygamma(-1, x), "polygamma: expected an order of at least 0, got -1", ValueError);
  CHECK_THROWS_AS(asin(Tensor()), ValueError);
}
