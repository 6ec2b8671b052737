#include <doctest/doctest.h>

#include <random>

#include "tensor/channels_last.h"
#include "tensor/cpu/convolution/winograd.h"
#include "tensor/cpu/isa.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/layers/convolution.h"
#include "tensor/profile/cost.h"
#include "tensor/threads/parallel.h"
#include "tests/tensor/reference.h"
#include "tests/tensor/test_values.h"

using namespace tessera;
using reference::elements;

namespace {

/// max(conv(x) + bias + added, 0) by seven loops in f64; `bias` and `added` may be undefined.
std::vector<double> by_loops(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight,
                             const Tensor& bias, const Tensor& added, bool relu) {
  const std::vector<double> in = elements(x), w = elements(weight);
  const std::vector<double> b = bias.defined() ? elements(bias) : std::vector<double>();
  std::vector<double> y(static_cast<size_t>(g.batch * g.out_channels * g.positions()));
  if (added.defined()) y = elements(added);
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t o = 0; o < g.out_channels; ++o)
      for (int64_t p = 0; p < g.positions(); ++p) {
        double& sum = y[static_cast<size_t>((n * g.out_channels + o) * g.positions() + p)];
        if (!b.empty()) sum += b[static_cast<size_t>(o)];
        for (int64_t c = 0; c < g.group_in(); ++c)
          for (int64_t k = 0; k < g.taps(); ++k) {
            const int64_t h = p / g.out[2] * g.stride[1] - g.padding[1] + k / g.kernel[2] * g.dilation[1];
            const int64_t i = p % g.out[2] * g.stride[2] - g.padding[2] + k % g.kernel[2] * g.dilation[2];
            if (h < 0 || h >= g.in[1] || i < 0 || i >= g.in[2]) continue;
            const int64_t channel = n * g.in_channels + o / g.group_out() * g.group_in() + c;
            sum += w[static_cast<size_t>((o * g.group_in() + c) * g.taps() + k)] *
                   in[static_cast<size_t>((channel * g.in[1] + h) * g.in[2] + i)];
          }
        if (relu && sum < 0) sum = 0;
      }
  return y;
}

double distance(const Tensor& got, const std::vector<double>& expected) {
  const std::vector<double> values = elements(got);
  REQUIRE(values.size() == expected.size());
  double largest = 0;
  for (size_t i = 0; i < values.size(); ++i)
    if (!(std::abs(values[i] - expected[i]) <= largest)) largest = std::abs(values[i] - expected[i]);
  return largest;
}

struct Case {
  Tensor x, weight, bias, added;
  ConvolutionGeometry geometry;

  /// `wide`: channels and a kernel that Winograd's tiles take.
  Case(uint64_t seed, DType dtype, bool wide) {
    std::mt19937_64 random(seed);
    const auto from = [&random](int64_t least, int64_t most) {
      return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
    };
    const int64_t groups = !wide && from(1, 4) == 1 ? from(2, 3) : 1;
    const int64_t in = wide ? 16 * from(2, 4) : from(1, 6) * groups;
    const int64_t out = wide ? 16 * from(2, 4) : from(1, 40) * groups, kernel = wide ? 3 : from(1, 3);
    x = random_tensor({from(1, 4), in, from(3, 12), from(3, 12)}, dtype, seed);
    weight = random_tensor({out, in / groups, kernel, kernel}, dtype, seed + 1);
    const int64_t stride = wide ? 1 : from(1, 2), padding = from(0, kernel - 1);
    geometry = ops::convolution_geometry("test", 2, x, weight, {}, stride, padding, 1, groups);
    if (seed % 3 != 0) bias = random_tensor({out}, dtype, seed + 2);
    if (seed % 4 != 0) added = random_tensor(geometry.y_shape(), dtype, seed + 3);
  }
};

/// Compares results in each layout of x and of the added tensor; empty where all agree.
std::string compare(const Case& c, double tolerance) {
  for (const bool relu : {false, true}) {
    const std::vector<double> expected = by_loops(c.geometry, c.x, c.weight, c.bias, c.added, relu);
    for (const bool last : {false, true})
      for (const bool added_last : {false, true}) {
        const Tensor added = c.added.defined() ? in_layout(added_last, c.added) : c.added;
        const Tensor y = ops::convolution(c.geometry, in_layout(last, c.x), c.weight, c.bias, added, relu);
        const double off = distance(y, expected);
        if (!(off <= tolerance) || y.dtype() != c.x.dtype())
          return text("x ", c.x.shape(), ", weight ", c.weight.shape(), ", channels last ", last, ", ",
                      added_last, ", relu ", relu, ": off by ", off);
      }
  }
  return "";
}

/// Results below 64 of half types are rounded by at most half a unit of the last place.
double tolerance_of(DType dtype) {
  return dtype == f64 ? 1e-12 : dtype == f32 ? 2e-4 : dtype == bf16 ? 0x1p-3 : 0x1p-6;
}

}  // namespace

TEST_CASE("fused convolution: random shapes against plain loops, every dtype, layout and path") {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const DType dtype = std::array{f32, f64, bf16, f16}[seed % 4];
    CAPTURE(seed);
    CHECK(compare(Case(seed * 7 + 1, dtype, false), tolerance_of(dtype)) == "");
  }
}

TEST_CASE("fused convolution: Winograd's tiles, on every instruction set") {
  int taken = 0;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    const DType dtype = seed % 2 ? bf16 : f32;
    const Case c(seed * 5 + 2, dtype, true);
    taken += kernels::cpu::winograd_takes(c.geometry);
    for (const kernels::cpu::Isa isa : kernels::cpu::all_isas) {
      if (!kernels::cpu::isa_available(isa)) continue;
      const kernels::cpu::IsaScope scope(isa);
      CAPTURE(seed);
      CHECK(compare(c, tolerance_of(dtype)) == "");
    }
  }
  CHECK(taken > 12);
}

TEST_CASE("fused convolution: relu alone has the bits of the convolution and then relu, for any threads") {
  for (const int64_t kernel : {1, 3})
    for (const DType dtype : {f32, bf16}) {
      const Tensor x = in_layout(true, random_tensor({3, 64, 13, 15}, dtype, 1)),
                   w = random_tensor({96, 64, kernel, kernel}, dtype, 2),
                   bias = random_tensor({96}, dtype, 3);
      const ConvolutionGeometry g = ops::convolution_geometry("test", 2, x, w, bias, 1, kernel / 2, 1, 1);
      const Tensor expected = ops::relu(ops::convolution(g, x, w, bias)).contiguous();
      const int before = num_threads();
      for (const int threads : {1, 2, 3}) {
        set_num_threads(threads);
        CHECK(same_bits(ops::convolution(g, x, w, bias, {}, true).contiguous(), expected));
      }
      set_num_threads(before);
    }
}

TEST_CASE("fused convolution: a sum with a half type is rounded once") {
  // 1 * 1 + 2^-9, which bf16 cannot hold, less 1: exact in f32, 0 if the convolution were rounded first.
  for (const bool last : {false, true}) {
    const Tensor x = ops::cast(Tensor::from({1.0F, 0x1p-9F}, {1, 2, 1, 1}), bf16),
                 w = ops::cast(Tensor::from({1.0F, 1.0F}, {1, 2, 1, 1}), bf16),
                 added = ops::cast(Tensor::from({-1.0F}, {1, 1, 1, 1}), bf16);
    const ConvolutionGeometry g = ops::convolution_geometry("test", 2, x, w, {}, 1, 0, 1, 1);
    CHECK(elements(ops::convolution(g, in_layout(last, x), w, {}, added, true)) ==
          std::vector<double>{0x1p-9});
  }
}

TEST_CASE("fused convolution: NaN stays NaN on each path; no products, no image and meta") {
  for (const int64_t kernel : {1, 3})
    for (const bool last : {false, true}) {
      const Tensor x = in_layout(last, Tensor::zeros({1, 32, 8, 8})),
                   w = Tensor::zeros({32, 32, kernel, kernel});
      const Tensor added = Tensor::zeros({1, 32, 8, 8});
      added.data<float>()[70] = std::numeric_limits<float>::quiet_NaN();
      added.data<float>()[71] = -2;
      added.data<float>()[72] = 3;
      const ConvolutionGeometry g = ops::convolution_geometry("test", 2, x, w, {}, 1, kernel / 2, 1, 1);
      const std::vector<double> y = elements(ops::convolution(g, x, w, {}, added, true));
      CHECK(std::isnan(y[70]));
      CHECK(y[71] == 0);
      CHECK(y[72] == 3);
      Cost cost;
      const CostScope scope(cost);
      const Tensor on_meta = ops::convolution(g, x.to(meta()), w.to(meta()), {}, added.to(meta()), true);
      CHECK(on_meta.is_meta());
      CHECK(on_meta.shape() == Shape{1, 32, 8, 8});
      CHECK(cost.flops == 2 * g.multiply_adds());
    }
  // No input channels: the bias and the sum alone.
  ConvolutionGeometry g;
  g.batch = 1, g.in_channels = 0, g.out_channels = 2, g.in = g.out = {1, 1, 2};
  const Tensor y = ops::convolution(g, Tensor::zeros(g.x_shape()), Tensor::zeros(g.weight_shape()),
                                    Tensor::from({1.0F, -1.0F}),
                                    Tensor::from({1.0F, -3.0F, 0.5F, 2.0F}, {1, 2, 1, 2}), true);
  CHECK(elements(y) == std::vector<double>{2, 0, 0, 1});
}

TEST_CASE("fused convolution: an added tensor that does not fit") {
  const Tensor x = Tensor::zeros({1, 4, 5, 5}), w = Tensor::zeros({6, 4, 3, 3});
  const ConvolutionGeometry g = ops::convolution_geometry("test", 2, x, w, {}, 1, 0, 1, 1);
  const auto with = [&](const Tensor& added) { return ops::convolution(g, x, w, {}, added, true); };
  CHECK_THROWS_WITH_AS(with(Tensor::zeros({1, 6, 5, 5})),
                       doctest::Contains("convolution: expected an added tensor of shape (1, 6, 3, 3), got"),
                       ShapeError);
  CHECK_THROWS_AS(with(Tensor::zeros({6, 3, 3})), ShapeError);
  CHECK_THROWS_AS(with(Tensor::zeros({1, 6, 1, 1})), ShapeError);
  CHECK_THROWS_AS(with(Tensor::zeros({1, 6, 3, 3}, f64)), DTypeError);
  CHECK_THROWS_AS(with(Tensor::zeros({1, 6, 3, 3}, bf16)), DTypeError);
  CHECK_THROWS_AS(with(Tensor::zeros({1, 6, 3, 3}).to(meta())), DeviceError);
}
