#include "tensor/ops/reduction.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "tests/tensor/reference.h"

using namespace tessera;
using namespace tessera::reference;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

/// The elements of x that belong to each result, in row-major order of the results.
std::vector<std::vector<double>> gathered(const Tensor& x, const Shape& axes) {
  std::vector<bool> reduced(static_cast<size_t>(x.ndim()), axes.empty());
  for (int64_t axis : axes) reduced[static_cast<size_t>(axis < 0 ? axis + x.ndim() : axis)] = true;
  int64_t results = 1;
  for (int d = 0; d < x.ndim(); ++d)
    if (!reduced[static_cast<size_t>(d)]) results *= x.shape()[d];
  std::vector<std::vector<double>> lists(static_cast<size_t>(results));
  for (int64_t i = 0; i < x.numel(); ++i) {
    int64_t rest = i, result = 0, step = 1;
    for (int d = x.ndim() - 1; d >= 0; --d) {
      if (!reduced[static_cast<size_t>(d)]) {
        result += rest % x.shape()[d] * step;
        step *= x.shape()[d];
      }
      rest /= x.shape()[d];
    }
    lists[static_cast<size_t>(result)].push_back(element(x, i));
  }
  return lists;
}

using Formula = std::function<double(const std::vector<double>&)>;

double total(const std::vector<double>& v) {
  double s = 0;
  for (double e : v) s += e;
  return s;
}

double variance(const std::vector<double>& v, double correction) {
  const double mean = total(v) / static_cast<double>(v.size());
  double s = 0;
  for (double e : v) s += (e - mean) * (e - mean);
  return s / (static_cast<double>(v.size()) - correction);
}

/// The rounding error of additions in the accumulator's type, relative to the magnitudes added; in f64 that
/// of the reference too.
double rounding_of(DType dtype) {
  return dtype == f64 ? 0x1p-50 : 0x1p-24;
}

void check_formula(const Tensor& result, const Tensor& x, const Shape& axes, const Formula& formula,
                   double tolerance) {
  const auto lists = gathered(x, axes);
  REQUIRE(result.numel() == static_cast<int64_t>(lists.size()));
  for (size_t i = 0; i < lists.size(); ++i) {
    const double expected = formula(lists[i]), got = element(result, static_cast<int64_t>(i));
    if (result.dtype() == f16 && expected >= 65520) {
      CHECK(got == inf);
      continue;
    }
    // Half a rounding error of every partial sum may remain where terms cancel.
    double magnitudes = 0;
    for (double e : lists[i]) magnitudes += std::abs(e);
    CAPTURE(i);
    CHECK(std::abs(got - expected) <=
          tolerance * (1 + std::abs(expected)) + (tolerance > 0 ? rounding_of(x.dtype()) * magnitudes : 0));
  }
}

/// For one rounding to the dtype; other errors are far smaller.
double tolerance_of(DType dtype) {
  return dtype == f64 ? 1e-14 : dtype == f32 ? 1e-6 : dtype == f16 ? 0x1p-10 : 0x1p-7;
}

struct Case {
  Tensor x;
  Shape axes;
};

/// Contiguous, transposed, sliced and broadcast inputs; rows and columns longer than the kernels' blocks.
std::vector<Case> cases(DType dtype) {
  const Tensor a = filled({3, 4, 5}, dtype, scattered);
  const Tensor wide = filled({2, 9001}, dtype, scattered);
  const Tensor tall = filled({700, 70}, dtype, scattered);
  std::vector<Case> list;
  for (const Shape& axes : {Shape{0}, Shape{1}, Shape{-1}, Shape{0, 1}, Shape{0, 2}, Shape{2, 1}, Shape{}}) {
    list.push_back({a, axes});
    list.push_back({a.permute({2, 0, 1}), axes});
    list.push_back({a.slice(2, 1, 5, 2).slice(1, 1, 4), axes});
    list.push_back({a.select(0, 1).unsqueeze(0).expand({3, 4, 5}), axes});
  }
  for (const Tensor& big : {wide, tall, wide.transpose(0, 1), tall.transpose(0, 1), tall.slice(1, 3, 70, 2)})
    for (const Shape& axes : {Shape{0}, Shape{1}, Shape{}}) list.push_back({big, axes});
  list.push_back({Tensor::from({2.5f}, {}), {}});
  return list;
}

}  // namespace

TEST_CASE("reduction: sum, mean, var, norm and logsumexp match their formulas, for any axes and strides") {
  for (DType dtype : {f64, f32, bf16, f16}) {
    CAPTURE(to_string(dtype));
    for (const Case& c : cases(dtype)) {
      const double tolerance = tolerance_of(c.x.dtype());
      CAPTURE(to_string(c.x.shape()));
      CAPTURE(to_string(c.axes));
      check_formula(ops::sum(c.x, c.axes), c.x, c.axes, total, tolerance);
      check_formula(
          ops::mean(c.x, c.axes), c.x, c.axes,
          [](const auto& v) { return total(v) / static_cast<double>(v.size()); }, tolerance);
      if (c.x.ndim() > 0) {
        check_formula(
            ops::var(c.x, c.axes), c.x, c.axes, [](const auto& v) { return variance(v, 1); }, tolerance);
        check_formula(
            ops::std(c.x, c.axes, false, 0), c.x, c.axes,
            [](const auto& v) { return std::sqrt(variance(v, 0)); }, tolerance);
      }
      for (double p : {0.0, 1.0, 2.0, 3.5})
        check_formula(
            ops::norm(c.x, p, c.axes), c.x, c.axes,
            [p](const auto& v) {
              double s = 0;
              for (double e : v) s += p == 0 ? e != 0 : std::pow(std::abs(e), p);
              return p == 0 ? s : std::pow(s, 1 / p);
            },
            tolerance);
      check_formula(
          ops::logsumexp(c.x, c.axes), c.x, c.axes,
          [](const auto& v) {
            double s = 0;
            for (double e : v) s += std::exp(e);
            return std::log(s);
          },
          tolerance);
    }
  }
}

TEST_CASE("reduction: max, min, infinite norms and arguments of extremes are exact") {
  for (DType dtype : {f64, f32, bf16, f16, i64, i32, u8}) {
    CAPTURE(to_string(dtype));
    for (const Case& c : cases(f64)) {
      const Tensor x = c.x.ndim()
                           ? filled(c.x.shape(), dtype,
                                    [&](int64_t i) { return std::abs(std::round(element(c.x, i) * 8)); })
                           : c.x;
      const auto largest = [](const auto& v) { return *std::max_element(v.begin(), v.end()); };
      const auto smallest = [](const auto& v) { return *std::min_element(v.begin(), v.end()); };
      check_formula(ops::max(x, c.axes), x, c.axes, largest, 0);
      check_formula(ops::min(x, c.axes), x, c.axes, smallest, 0);
      if (is_floating(x.dtype())) {
        check_formula(ops::norm(x, inf, c.axes), x, c.axes, largest, 0);
        check_formula(ops::norm(x, -inf, c.axes), x, c.axes, smallest, 0);
      }
      if (c.axes.ndim() == 1) {
        const auto first = [](auto it, const auto& v) { return static_cast<double>(it - v.begin()); };
        check_formula(
            ops::argmax(x, c.axes[0]), x, c.axes,
            [&](const auto& v) { return first(std::max_element(v.begin(), v.end()), v); }, 0);
        check_formula(
            ops::argmin(x, c.axes[0]), x, c.axes,
            [&](const auto& v) { return first(std::min_element(v.begin(), v.end()), v); }, 0);
      }
    }
  }
}

TEST_CASE("reduction: integers and bool add and multiply in i64, exactly") {
  const int64_t big = int64_t{1} << 60;
  CHECK(ops::sum(Tensor::from<int64_t>({big, big + 1, -1})).item_i64() == 2 * big);
  CHECK(ops::sum(Tensor::from<uint8_t>({255, 255})).item_i64() == 510);
  CHECK(ops::sum(Tensor::from<bool>({true, false, true})).item_i64() == 2);
  CHECK(ops::prod(Tensor::from<int32_t>({65536, 65536, 3})).item_i64() == int64_t{3} << 32);
  CHECK(ops::max(Tensor::from<int64_t>({big, big + 1})).item_i64() == big + 1);
  CHECK(ops::max(Tensor::from<bool>({false, true})).dtype() == boolean);
}

TEST_CASE("reduction: any and all") {
  const Tensor x = Tensor::from<float>({0, 0, 0, 2, NAN, 1}, {3, 2});
  CHECK(elements(ops::any(x, {1})) == std::vector<double>{0, 1, 1});
  CHECK(elements(ops::all(x, {1})) == std::vector<double>{0, 0, 1});
  CHECK(ops::any(x).dtype() == boolean);
  CHECK(ops::all(Tensor::from<int64_t>({1, int64_t{1} << 33})).item_i64() == 1);
}

TEST_CASE("reduction: results do not depend on the number of threads") {
  for (DType dtype : {f64, f32, bf16}) {
    const Tensor x = filled({1500, 130}, dtype, scattered);
    for (const Shape& axes : {Shape{0}, Shape{1}, Shape{}})
      for (const Tensor& y : {x, x.transpose(0, 1)}) {
        CHECK(same_for_any_number_of_threads([&] { return ops::sum(y, axes); }));
        CHECK(same_for_any_number_of_threads([&] { return ops::var(y, axes); }));
        CHECK(same_for_any_number_of_threads([&] { return ops::logsumexp(y, axes); }));
        CHECK(same_for_any_number_of_threads([&] { return ops::max(y, axes); }));
      }
  }
}

TEST_CASE("reduction: a NaN makes the result NaN, infinities follow IEEE 754") {
  for (int64_t at : {0, 5, 40, 99}) {
    Tensor x = filled({100}, f32, scattered);
    x.data<float>()[at] = NAN;
    for (const Tensor& result : {ops::sum(x), ops::max(x), ops::min(x), ops::prod(x), ops::norm(x, inf),
                                 ops::norm(x), ops::logsumexp(x), ops::var(x)})
      CHECK(std::isnan(result.item()));
    CHECK(ops::argmax(x, 0).item_i64() == at);
    CHECK(ops::argmin(x).item_i64() == at);
    const Tensor column = filled({100, 3}, f32, [&](int64_t i) { return i == 3 * at ? nan_value : 1.0; });
    CHECK(std::isnan(element(ops::max(column, {0}), 0)));
    CHECK(element(ops::max(column, {0}), 1) == 1);
  }
  CHECK(ops::max(Tensor::from<float>({-INFINITY, -INFINITY})).item() == -inf);
  CHECK(ops::logsumexp(Tensor::from<float>({-INFINITY, -INFINITY})).item() == -inf);
  CHECK(ops::logsumexp(Tensor::from<float>({INFINITY, 1})).item() == inf);
  CHECK(ops::logsumexp(Tensor::from<float>({1e38f, 1e38f})).item() == doctest::Approx(1e38));
  CHECK(ops::norm(Tensor::from<float>({3e38f, 0})).item() == doctest::Approx(3e38));
  CHECK(ops::mean(Tensor::from<float16>({float16(60000.f), float16(60000.f)})).item() == 59904 + 64 + 32);
}

TEST_CASE("reduction: a long f32 sum keeps its digits") {
  const int64_t n = 3'000'000;
  const Tensor x = filled({n}, f32, [](int64_t) { return 0.1; });
  // Sequential addition would be off by 1e-3 of the sum.
  CHECK(std::abs(ops::sum(x).item() / (static_cast<double>(0.1f) * static_cast<double>(n)) - 1) < 1e-6);
}

TEST_CASE("reduction: over no elements as in NumPy") {
  const Tensor none = Tensor::empty({0, 3}, f32);
  CHECK(elements(ops::sum(none, {0})) == std::vector<double>{0, 0, 0});
  CHECK(elements(ops::prod(none, {0})) == std::vector<double>{1, 1, 1});
  CHECK(std::isnan(element(ops::mean(none, {0}), 2)));
  CHECK(std::isnan(element(ops::var(none, {0}), 2)));
  CHECK(elements(ops::any(none, {0})) == std::vector<double>{0, 0, 0});
  CHECK(elements(ops::all(none, {0})) == std::vector<double>{1, 1, 1});
  CHECK(element(ops::norm(none), 0) == 0);
  CHECK(ops::logsumexp(none).item() == -inf);
  CHECK(ops::sum(none, {1}).shape() == Shape{0});
  CHECK(ops::max(none, {1}).shape() == Shape{0});
  CHECK_THROWS_AS(ops::max(none, {0}), ShapeError);
  CHECK_THROWS_AS(ops::argmin(none, 0), ShapeError);
  CHECK_THROWS_AS(ops::norm(none, inf), ShapeError);
  CHECK(std::isnan(ops::var(Tensor::from<float>({1})).item()));
}

TEST_CASE("reduction: shapes, keepdim, meta, and refused arguments") {
  const Tensor x = Tensor::empty({2, 3, 4}, f32, meta());
  CHECK(ops::sum(x, {0, -1}).shape() == Shape{3});
  CHECK(ops::sum(x, {0, -1}, true).shape() == Shape{1, 3, 1});
  CHECK(ops::mean(x).shape() == Shape{});
  CHECK(ops::argmax(x, 1, true).shape() == Shape{2, 1, 4});
  CHECK(ops::argmax(x, 1).dtype() == i64);
  CHECK(ops::sum_to(x, {3, 1}).shape() == Shape{3, 1});
  CHECK(ops::sum_to(x, {2, 3, 4}).shares_storage(x));
  CHECK_THROWS_AS(ops::sum(x, {3}), IndexError);
  CHECK_THROWS_AS(ops::sum(x, {0, -3}), ValueError);
  CHECK_THROWS_AS(ops::sum_to(x, {2, 4}), ShapeError);
  CHECK_THROWS_AS(ops::mean(Tensor::from<int64_t>({1})), DTypeError);
  CHECK_THROWS_AS(ops::norm(x, nan_value), ValueError);
}

TEST_CASE("var, std: 0 for equal values, for any number of them and along any axis") {
  for (DType dtype : {f64, f32, bf16, f16})
    for (double value : {0.1, 1.7, 3.3, -1e4})
      for (int64_t n : {2, 3, 7, 100, 1000, 5001}) {
        const Tensor rows = filled({2, n}, dtype, [=](int64_t) { return value; });
        for (const Tensor& x : {rows, rows.transpose(0, 1), rows.transpose(0, 1).contiguous()}) {
          const int64_t axis = x.size(0) == n ? 0 : 1;
          for (double result : elements(ops::std(x, {axis}))) CHECK(result == 0);
          CHECK(ops::var(x).item() == 0);
        }
      }
}
