// Pooling against a plain loop over the definition, at 2,000 random shapes, and its errors.

#include "tensor/ops/images/pooling.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <random>

#include "tests/tensor/reference.h"

using namespace tessera;
using namespace tessera::reference;
using ops::AverageDivisor;
using ops::PoolWindow;

namespace {

struct Case {
  Shape x;
  PoolWindow window;
  AverageDivisor divisor;
};

class Draw {
 public:
  explicit Draw(uint32_t seed) : generator_(seed) {}
  int64_t operator()(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(generator_() % static_cast<uint64_t>(high - low + 1));
  }

 private:
  std::mt19937 generator_;
};

/// A shape and a window that fit each other.
Case draw_case(Draw& draw, bool with_dilation) {
  Case c;
  PoolWindow& w = c.window;
  w.dims = static_cast<int>(draw(1, 3));
  w.padding = w.dilation = w.stride = w.kernel_size = Shape::filled(w.dims, 1);
  if (draw(0, 1) == 1) c.x.push_back(draw(1, 3));
  c.x.push_back(draw(1, 3));
  w.ceil_mode = draw(0, 1) == 1;
  for (int i = 0; i < w.dims; ++i) {
    w.kernel_size[i] = draw(1, 4);
    w.stride[i] = draw(1, 4);
    w.dilation[i] = with_dilation ? draw(1, 3) : 1;
    const int64_t span = w.dilation[i] * (w.kernel_size[i] - 1) + 1;
    w.padding[i] = draw(0, span / 2);
    c.x.push_back(std::max<int64_t>(1, span - 2 * w.padding[i]) + draw(0, 6));
  }
  c.divisor.count_include_pad = draw(0, 1) == 1;
  if (draw(0, 3) == 0) c.divisor.divisor_override = draw(1, 7);
  return c;
}

/// By the definition: ((n + 2 p - d (k - 1) - 1) / s, rounded) + 1 windows, the last of which begins before
/// the padding on the right.
int64_t count_windows(const Case& c, int i) {
  const PoolWindow& w = c.window;
  const int64_t n = c.x[c.x.ndim() - w.dims + i], p = w.padding[i], s = w.stride[i];
  const double free = static_cast<double>(n + 2 * p - w.dilation[i] * (w.kernel_size[i] - 1) - 1);
  const double quotient = free / static_cast<double>(s);
  int64_t count = static_cast<int64_t>(w.ceil_mode ? std::ceil(quotient) : std::floor(quotient)) + 1;
  if (w.ceil_mode && (count - 1) * s >= n + p) --count;
  return count;
}

struct Expected {
  Shape shape;
  std::vector<double> largest, average;
  std::vector<int64_t> index;
};

/// What one window holds.
struct Window {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  int64_t index = -1, inside = 0, padded = 0;
};

/// Three of everything: dimensions that x does not have are of extent, kernel and count 1.
struct Volume {
  std::array<int64_t, 3> extent{1, 1, 1}, count{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, padding{},
      dilation{1, 1, 1};
  explicit Volume(const Case& c) {
    const int dims = c.window.dims;
    for (int i = 0; i < dims; ++i) {
      const size_t at = static_cast<size_t>(3 - dims + i);
      extent[at] = c.x[c.x.ndim() - dims + i], count[at] = count_windows(c, i);
      kernel[at] = c.window.kernel_size[i], stride[at] = c.window.stride[i];
      padding[at] = c.window.padding[i], dilation[at] = c.window.dilation[i];
    }
  }
  int64_t plane() const { return extent[0] * extent[1] * extent[2]; }

  Window window(const std::vector<double>& x, int64_t plane_begin, std::array<int64_t, 3> o) const {
    Window found;
    for (int64_t a = 0; a < kernel[0]; ++a)
      for (int64_t b = 0; b < kernel[1]; ++b)
        for (int64_t c = 0; c < kernel[2]; ++c) {
          const std::array<int64_t, 3> tap{a, b, c};
          std::array<int64_t, 3> at;
          bool inside = true, padded = true;
          for (size_t i = 0; i < 3; ++i) {
            at[i] = o[i] * stride[i] - padding[i] + tap[i] * dilation[i];
            inside &= at[i] >= 0 && at[i] < extent[i];
            padded &= at[i] < extent[i] + padding[i];
          }
          found.padded += padded;
          if (!inside) continue;
          ++found.inside;
          const int64_t index = (at[0] * extent[1] + at[1]) * extent[2] + at[2];
          const double value = x[static_cast<size_t>(plane_begin + index)];
          found.sum += value;
          if (value > found.largest) found.largest = value, found.index = index;
        }
    return found;
  }
};

Expected by_definition(const Case& c, const std::vector<double>& x) {
  const Volume volume(c);
  Expected expected;
  expected.shape = c.x;
  for (int i = 0; i < c.window.dims; ++i)
    expected.shape[c.x.ndim() - c.window.dims + i] = volume.count[static_cast<size_t>(3 - c.window.dims + i)];
  for (int64_t begin = 0; begin < std::ssize(x); begin += volume.plane())
    for (int64_t a = 0; a < volume.count[0]; ++a)
      for (int64_t b = 0; b < volume.count[1]; ++b)
        for (int64_t d = 0; d < volume.count[2]; ++d) {
          const Window w = volume.window(x, begin, {a, b, d});
          const int64_t divisor = c.divisor.divisor_override != 0 ? c.divisor.divisor_override
                                  : c.divisor.count_include_pad   ? w.padded
                                                                  : w.inside;
          expected.largest.push_back(w.largest);
          expected.index.push_back(w.index);
          expected.average.push_back(w.sum / static_cast<double>(divisor));
        }
  return expected;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

bool close(const std::vector<double>& a, const std::vector<double>& b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i) same = std::abs(a[i] - b[i]) <= 1e-12;
  return same;
}

}  // namespace

TEST_CASE("max pooling: values, indices and gradient by a plain loop, at 1,000 random shapes") {
  Draw draw(17);
  int pooled = 0;
  for (int i = 0; pooled < 1000; ++i) {
    const Case c = draw_case(draw, true);
    CAPTURE(c.x);
    CAPTURE(c.window.kernel_size);
    // In every other case with equal elements: the first one is taken.
    const Tensor x =
        filled(c.x, f64, [&](int64_t k) { return i % 2 ? scattered(k + i) : std::floor(scattered(k + i)); });
    const Expected expected = by_definition(c, elements(x));
    if (std::find(expected.index.begin(), expected.index.end(), -1) != expected.index.end()) {
      CHECK_THROWS_WITH_AS(ops::max_pool(x, c.window), doctest::Contains("an element of x in every window"),
                           ValueError);
      continue;
    }
    ++pooled;
    const auto [values, indices] = ops::max_pool(x, c.window);
    REQUIRE(values.shape() == expected.shape);
    CHECK(elements(values) == expected.largest);
    const Tensor dy = filled(values.shape(), f64, [&](int64_t k) { return scattered(3 * k + i); });
    std::vector<double> dx(static_cast<size_t>(x.numel()));
    const int64_t plane = Volume(c).plane(), windows = values.numel() / (x.numel() / plane);
    for (int64_t o = 0; o < values.numel(); ++o) {
      CHECK(element(indices, o) == static_cast<double>(expected.index[static_cast<size_t>(o)]));
      dx[static_cast<size_t>(o / windows * plane + expected.index[static_cast<size_t>(o)])] += element(dy, o);
    }
    CHECK(close(elements(ops::max_pool_backward(dy, indices, c.x, c.window.dims)), dx));
  }
}

TEST_CASE(
    "average pooling: values by a plain loop, the gradient as the transposed map, at 1,000 random shapes") {
  Draw draw(29);
  for (int i = 0; i < 1000; ++i) {
    const Case c = draw_case(draw, false);
    CAPTURE(c.x);
    CAPTURE(c.window.kernel_size);
    const Tensor x = filled(c.x, f64, [&](int64_t k) { return scattered(k + i); });
    const Expected expected = by_definition(c, elements(x));
    const Tensor y = ops::avg_pool(x, c.window, c.divisor);
    REQUIRE(y.shape() == expected.shape);
    CHECK(close(elements(y), expected.average));
    const Tensor dy = filled(y.shape(), f64, [&](int64_t k) { return scattered(3 * k + i); });
    const Tensor dx = ops::avg_pool_backward(dy, c.x, c.window, c.divisor);
    REQUIRE(dx.shape() == c.x);
    CHECK(dot(elements(dy), expected.average) ==
          doctest::Approx(dot(elements(dx), elements(x))).epsilon(1e-10));
  }
}

TEST_CASE("adaptive pooling: windows from floor(i n / m) to ceil((i + 1) n / m)") {
  for (int64_t n = 1; n <= 9; ++n)
    for (int64_t m = 1; m <= 9; ++m) {
      const Tensor x = filled({2, n}, f64, [&](int64_t k) { return scattered(k + n); });
      const Tensor largest = ops::adaptive_max_pool(x, 1, m).values,
                   average = ops::adaptive_avg_pool(x, 1, m);
      for (int64_t o = 0; o < 2 * m; ++o) {
        const double i = static_cast<double>(o % m), count = static_cast<double>(m);
        const auto begin = static_cast<int64_t>(std::floor(i * static_cast<double>(n) / count));
        const auto end = static_cast<int64_t>(std::ceil((i + 1) * static_cast<double>(n) / count));
        double best = -10, sum = 0;
        for (int64_t k = begin; k < end; ++k)
          best = std::max(best, element(x, o / m * n + k)), sum += element(x, o / m * n + k);
        CHECK(element(largest, o) == best);
        CHECK(element(average, o) == doctest::Approx(sum / static_cast<double>(end - begin)));
      }
    }
}

TEST_CASE("pooling: NaN is the largest, and no number of threads changes a bit") {
  Tensor x = filled({1, 1, 4}, f32, [](int64_t i) { return static_cast<double>(i); });
  x.data<float>()[1] = std::numeric_limits<float>::quiet_NaN();
  const auto [values, indices] = ops::max_pool(x, {.dims = 1, .kernel_size = 2});
  CHECK(std::isnan(values.data<float>()[0]));
  CHECK(indices.data<int64_t>()[0] == 1);
  CHECK(values.data<float>()[1] == 3);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor several = Tensor::from({1.0f, nan, 2.0f, nan, 5.0f, 3.0f}, {1, 2, 3});  // the last NaN by rows
  CHECK(ops::max_pool(several, {.kernel_size = {2, 3}}).indices.data<int64_t>()[0] == 3);
  const Tensor large = filled({4, 8, 33, 31}, f32, scattered);
  const PoolWindow window{.dims = 2, .kernel_size = 3, .stride = 2, .padding = 1};
  const auto same = [&](const std::function<Tensor()>& make) { CHECK(same_for_any_number_of_threads(make)); };
  same([&] { return ops::max_pool(large, window).values; });
  same([&] { return ops::avg_pool(large, window); });
  const Tensor dy = ops::avg_pool(large, window), at = ops::max_pool(large, window).indices;
  same([&] { return ops::avg_pool_backward(dy, large.shape(), window); });
  same([&] { return ops::max_pool_backward(dy, at, large.shape(), 2); });
}

TEST_CASE("pooling: arguments that do not fit are errors that say what was expected") {
  const Tensor x = Tensor::zeros({1, 2, 4, 4});
  const auto pool = [&](const PoolWindow& window) { return ops::max_pool(x, window).values; };
  CHECK_THROWS_WITH_AS(pool({.kernel_size = 5}), doctest::Contains("at most the padded extent 4 + 2 * 0"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(pool({.kernel_size = 2, .padding = 2}), doctest::Contains("at most half"), ValueError);
  CHECK_THROWS_WITH_AS(pool({.kernel_size = 2, .padding = -1}), doctest::Contains("padding of at least 0"),
                       ValueError);
  CHECK_THROWS_WITH_AS(pool({.kernel_size = 0}), doctest::Contains("at least 1, got 0"), ValueError);
  CHECK_THROWS_WITH_AS(pool({.kernel_size = 2, .stride = 0}), doctest::Contains("at least 1"), ValueError);
  CHECK_THROWS_WITH_AS(pool({.kernel_size = 2, .dilation = 0}), doctest::Contains("at least 1"), ValueError);
  CHECK_THROWS_WITH_AS(pool({.kernel_size = {2, 2, 2}}), doctest::Contains("kernel_size of 1 or 2 entries"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(pool({.dims = 3, .kernel_size = 2, .padding = {0, 0}}), doctest::Contains("3"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(pool({.dims = 1, .kernel_size = 2}), doctest::Contains("2 or 3 dimensions"),
                       ShapeError);
  CHECK_THROWS_AS(ops::max_pool(Tensor::zeros({1, 2, 0, 4}), {.kernel_size = 2}), ShapeError);
  CHECK_THROWS_AS(ops::max_pool(Tensor::zeros({1, 2, 4, 4}, i64), {.kernel_size = 2}), DTypeError);
  CHECK_THROWS_WITH_AS(ops::avg_pool(x, {.kernel_size = 2, .dilation = 2}),
                       doctest::Contains("dilation of 1"), ValueError);
  CHECK_THROWS_AS(ops::avg_pool(x, {.kernel_size = 2}, {.divisor_override = -1}), ValueError);
  CHECK_THROWS_WITH_AS(ops::adaptive_avg_pool(x, 2, {2, -2}), doctest::Contains("got -2"), ValueError);
  const int64_t largest = std::numeric_limits<int64_t>::max();
  CHECK_THROWS_AS(ops::adaptive_avg_pool(x, 2, largest),
                  ValueError);  // and takes no memory for as many windows
  CHECK_THROWS_AS(pool({.kernel_size = largest, .padding = largest / 2}), ValueError);
  CHECK_THROWS_AS(pool({.kernel_size = 2, .dilation = largest}), ValueError);
  CHECK_THROWS_AS(pool({.kernel_size = 2, .stride = largest, .ceil_mode = true}), ValueError);
  CHECK_THROWS_AS(ops::avg_pool_backward(x, {1, 2, 4, 4}, {.kernel_size = 2}), ShapeError);
}
