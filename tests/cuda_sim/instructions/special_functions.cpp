// ex2, lg2, sin, cos, tanh, rsqrt against long double.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/cuda_sim/instructions/evaluate.h"

using namespace tessera::cuda_sim::testing;

namespace {

/// Units in the last place between a result and the exact value; 0 where both are the same special value.
double ulps(float result, long double exact) {
  const auto nearest = static_cast<float>(exact);
  if (is_same(result, nearest)) return 0;
  if (!std::isfinite(result) || !std::isfinite(nearest)) return INFINITY;
  const float ulp = std::nextafter(std::fabs(nearest), INFINITY) - std::fabs(nearest);
  return static_cast<double>(std::fabs(result - exact) / ulp);
}

template <class Exact>
double greatest_error(const std::string& instruction, const std::vector<float>& a, Exact exact) {
  const auto results = apply<float>(instruction, a);
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double error = ulps(results[i], exact(static_cast<long double>(a[i])));
    if (error > worst && error > 0.51)
      MESSAGE(instruction << " of " << a[i] << ": " << results[i] << ", " << error << " ulp");
    worst = std::max(worst, error);
  }
  return worst;
}

}  // namespace

TEST_CASE("instructions: special functions are exact but for the last rounding") {
  const auto a = floats<float>(5000, 1);
  CHECK(greatest_error("ex2.approx.f32", a, [](long double x) { return std::exp2(x); }) <= 0.501);
  CHECK(greatest_error("lg2.approx.f32", a, [](long double x) { return std::log2(x); }) <= 0.501);
  CHECK(greatest_error("tanh.approx.f32", a, [](long double x) { return std::tanh(x); }) <= 0.501);
  CHECK(greatest_error("rsqrt.approx.f32", a, [](long double x) { return 1 / std::sqrt(x); }) <= 0.501);
  CHECK(greatest_error("rcp.approx.f32", a, [](long double x) { return 1 / x; }) <= 0.5);
  CHECK(greatest_error("sqrt.approx.f32", a, [](long double x) { return std::sqrt(x); }) <= 0.5);
  CHECK(greatest_error("sin.approx.f32", a, [](long double x) { return std::sin(x); }) <= 0.501);
  CHECK(greatest_error("cos.approx.f32", a, [](long double x) { return std::cos(x); }) <= 0.501);
}

TEST_CASE("instructions: ex2 and lg2 over their whole range") {
  std::vector<float> exponents, powers;
  for (int i = -1600; i <= 1300; ++i) exponents.push_back(static_cast<float>(i) * 0.0973f);
  for (int i = -149; i < 128; ++i)
    for (const float factor : {1.0f, 1.1f, 1.4142f, 1.4143f, 1.99f}) powers.push_back(std::ldexp(factor, i));
  CHECK(greatest_error("ex2.approx.f32", exponents, [](long double x) { return std::exp2(x); }) <= 0.501);
  CHECK(greatest_error("lg2.approx.f32", powers, [](long double x) { return std::log2(x); }) <= 0.501);
}

TEST_CASE("instructions: special functions with .ftz") {
  const std::vector<float> a = {-130, 1e-40f, -1e-40f, 3};
  CHECK(apply<float>("ex2.approx.ftz.f32", a)[0] == 0);
  CHECK(apply<float>("ex2.approx.f32", a)[0] == std::exp2(-130.0f));
  CHECK(apply<float>("lg2.approx.ftz.f32", a)[1] == -INFINITY);
  CHECK(apply<float>("rsqrt.approx.ftz.f32", a)[1] == INFINITY);
  CHECK(apply<float>("rcp.approx.ftz.f32", a)[2] == -INFINITY);
  CHECK(apply<float>("sqrt.approx.ftz.f32", a)[1] == 0);
  CHECK(apply<float>("sin.approx.ftz.f32", a)[1] == 0);
  CHECK(apply<float>("cos.approx.ftz.f32", a)[1] == 1);
}
