#include "tensor/ops/layers/convolution.h"

#include <doctest/doctest.h>

#include <random>

#include "tensor/channels_last.h"
#include "tensor/cpu/convolution/winograd.h"
#include "tensor/cpu/gemm/onednn/gemm_onednn.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/matmul.h"
#include "tensor/profile/cost.h"
#include "tensor/threads/parallel.h"
#include "tests/tensor/reference.h"
#include "tests/tensor/test_values.h"

using namespace tessera;
using reference::elements;
using reference::filled;

namespace {

/// A convolution and its gradients by seven loops, in f64.
struct PlainLoops {
  std::vector<double> y, dx, dw;

  PlainLoops(const ConvolutionGeometry& g, const std::vector<double>& x, const std::vector<double>& w,
             const std::vector<double>& dy)
      : y(dy.size()), dx(x.size()), dw(w.size()) {
    const int64_t taps = g.taps();
    for (int64_t n = 0; n < g.batch; ++n)
      for (int64_t o = 0; o < g.out_channels; ++o)
        for (int64_t p = 0; p < g.positions(); ++p)
          for (int64_t c = 0; c < g.group_in(); ++c)
            for (int64_t k = 0; k < taps; ++k) {
              const int64_t pixel = pixel_of(g, p, k);
              if (pixel < 0) continue;
              const int64_t channel = o / g.group_out() * g.group_in() + c;
              const auto i = static_cast<size_t>((n * g.in_channels + channel) * g.in_positions() + pixel);
              const auto j = static_cast<size_t>((o * g.group_in() + c) * taps + k);
              const auto q = static_cast<size_t>((n * g.out_channels + o) * g.positions() + p);
              y[q] += w[j] * x[i];
              dx[i] += w[j] * dy[q];
              dw[j] += dy[q] * x[i];
            }
  }

 private:
  /// The element of a channel of x under tap k of the window at position p; -1 in the padding.
  static int64_t pixel_of(const ConvolutionGeometry& g, int64_t p, int64_t k) {
    const int64_t position[3] = {p / (g.out[1] * g.out[2]), p / g.out[2] % g.out[1], p % g.out[2]};
    const int64_t tap[3] = {k / (g.kernel[1] * g.kernel[2]), k / g.kernel[2] % g.kernel[1], k % g.kernel[2]};
    int64_t pixel = 0;
    for (int i = 0; i < 3; ++i) {
      const int64_t at = position[i] * g.stride[i] - g.padding[i] + tap[i] * g.dilation[i];
      if (at < 0 || at >= g.in[i]) return -1;
      pixel = pixel * g.in[i] + at;
    }
    return pixel;
  }
};

/// A convolution of random sizes, and the arguments of its function.
struct RandomCase {
  int ndim;
  Shape x, weight, stride, padding, dilation;
  int64_t groups;
  ConvolutionGeometry geometry;

  explicit RandomCase(uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto from = [&random](int64_t least, int64_t most) {
      return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
    };
    ndim = static_cast<int>(from(1, 3));
    groups = from(1, 4) == 1 ? from(2, 3) : 1;
    const int64_t in = from(1, 4) * groups, out = from(1, 4) * groups;
    x = {from(1, 3), in};
    weight = {out, in / groups};
    stride = padding = dilation = Shape();
    for (int i = 0; i < ndim; ++i) {
      const int64_t kernel = from(1, ndim == 3 ? 3 : 4);
      stride.push_back(from(1, 3));
      padding.push_back(from(0, 3));
      dilation.push_back(from(1, 2));
      const int64_t span = dilation[i] * (kernel - 1) + 1;
      x.push_back(std::max<int64_t>(1, span - 2 * padding[i]) + from(0, ndim == 1 ? 20 : 5));
      weight.push_back(kernel);
    }
    geometry = ops::convolution_geometry("test", ndim, Tensor::empty(x), Tensor::empty(weight), {}, stride,
                                         padding, dilation, groups);
  }
};

/// The largest distance of the elements from those expected.
double distance(const Tensor& got, const std::vector<double>& expected) {
  const std::vector<double> values = elements(got);
  REQUIRE(values.size() == expected.size());
  double largest = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double difference = std::abs(values[i] - expected[i]);
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

/// Of three layouts: contiguous, channels last, and one with gaps.
Tensor in_some_layout(const Tensor& x, uint64_t choice) {
  if (choice % 3 == 0) return x;
  if (choice % 3 == 1) return in_layout(true, x);
  const Tensor wide = Tensor::zeros(
      [&] {
        Shape shape = x.shape();
        shape[1] *= 2;
        return shape;
      }(),
      x.dtype());
  const Tensor half = wide.slice(1, 0, wide.size(1), 2);
  half.copy_from(x);
  return half;
}

struct BackendScope {
  MatmulBackend before = matmul_backend();
  explicit BackendScope(MatmulBackend backend) { set_matmul_backend(backend); }
  ~BackendScope() { set_matmul_backend(before); }
};

std::vector<MatmulBackend> backends() {
  if (!kernels::cpu::onednn_built()) return {MatmulBackend::eigen};
  return {MatmulBackend::eigen, MatmulBackend::onednn, MatmulBackend::automatic};
}

/// The case's convolution and gradients against the loops; empty where all agree.
std::string compare(uint64_t seed, DType dtype, double tolerance) {
  const RandomCase c(seed);
  const ConvolutionGeometry& g = c.geometry;
  const Tensor x = random_tensor(c.x, dtype, seed), w = random_tensor(c.weight, dtype, seed + 1),
               dy = random_tensor(g.y_shape(), dtype, seed + 2);
  const PlainLoops expected(g, elements(x), elements(w), elements(dy));
  const Tensor given = in_some_layout(x, seed), incoming = in_some_layout(dy, seed / 3);
  const Tensor y = ops::convolution(g, given, w), dx = ops::convolution_input_backward(g, incoming, w);
  const Tensor dw = Tensor::empty(c.weight, dtype);
  ops::convolution_weight_backward(g, incoming, given, dw);
  const double all[] = {distance(y, expected.y), distance(dx, expected.dx), distance(dw, expected.dw)};
  if (all[0] <= tolerance && all[1] <= tolerance && all[2] <= tolerance) return "";
  return text("seed ", seed, ", x ", c.x, ", weight ", c.weight, ", stride ", c.stride, ", padding ",
              c.padding, ", dilation ", c.dilation, ", groups ", c.groups, ": off by ", all[0], ", ", all[1],
              ", ", all[2]);
}

}  // namespace

TEST_CASE("convolution: 2,000 random shapes against plain loops, in f32 and f64, on every path") {
  for (const MatmulBackend backend : backends()) {
    const BackendScope scope(backend);
    CAPTURE(static_cast<int>(backend));
    for (uint64_t seed = 0; seed < 2000; ++seed) {
      // Sums of multiples of 2^-14, exact in f64 and, as they are short, in f32.
      CHECK(compare(seed, seed % 2 ? f64 : f32, seed % 2 ? 0.0 : 1e-5) == "");
    }
  }
}

TEST_CASE("convolution: half types are rounded once, from f32") {
  for (const MatmulBackend backend : backends()) {
    const BackendScope scope(backend);
    for (const DType dtype : {bf16, f16})
      for (uint64_t seed = 0; seed < 60; ++seed) {
        // The loops' largest results are below 64; half a unit of the last place, there.
        CHECK(compare(seed, dtype, dtype == bf16 ? 0x1p-3 : 0x1p-6) == "");
      }
  }
}

TEST_CASE("convolution: larger sizes, which are cut into blocks, agree with the loops") {
  // x, C_out, kernel, stride, groups: several blocks of positions, images in one block, channels in parts.
  struct Size {
    Shape x;
    int64_t out, kernel, stride, groups;
  };
  for (const Size& s : {Size{{3, 20, 33, 29}, 24, 3, 1, 1}, Size{{9, 48, 4, 4}, 40, 3, 1, 1},
                        Size{{2, 3, 40, 40}, 16, 7, 2, 1}, Size{{4, 32, 12, 12}, 32, 3, 1, 32},
                        Size{{5, 32, 9, 9}, 64, 1, 2, 2}, Size{{1, 64, 8, 8}, 64, 3, 1, 1},
                        Size{{2, 64, 14, 13}, 64, 3, 1, 1}, Size{{6, 33, 16, 16}, 31, 3, 1, 1}}) {
    const Shape shape{s.out, s.x[1] / s.groups, s.kernel, s.kernel};
    for (const DType dtype : {f32, f64}) {
      const Tensor x = random_tensor(s.x, dtype, 1), w = random_tensor(shape, dtype, 2);
      const ConvolutionGeometry g =
          ops::convolution_geometry("test", 2, x, w, {}, s.stride, s.kernel / 2, 1, s.groups);
      const Tensor dy = random_tensor(g.y_shape(), dtype, 3);
      const PlainLoops expected(g, elements(x), elements(w), elements(dy));
      for (const MatmulBackend backend : backends())
        for (const bool channels_last : {false, true}) {
          const BackendScope scope(backend);
          const Tensor given = in_layout(channels_last, x), incoming = in_layout(channels_last, dy);
          CAPTURE(to_string(s.x));
          CAPTURE(static_cast<int>(backend));
          CAPTURE(channels_last);
          // Sums of up to 5,000 products below 1.
          const double tolerance = dtype == f32 ? 2e-3 : 1e-11;
          const Tensor y = ops::convolution(g, given, w);
          CHECK(is_channels_last(y) == channels_last);
          CHECK(distance(y, expected.y) <= tolerance);
          const Tensor dx = ops::convolution_input_backward(g, incoming, w);
          CHECK(is_channels_last(dx) == channels_last);
          CHECK(distance(dx, expected.dx) <= tolerance);
          const Tensor dw = Tensor::zeros(shape, dtype);
          ops::convolution_weight_backward(g, incoming, given, dw);
          ops::convolution_weight_backward(g, incoming, given, dw, true);
          std::vector<double> twice = expected.dw;
          for (double& value : twice) value *= 2;
          CHECK(distance(dw, twice) <= 2 * tolerance);
        }
    }
  }
}

TEST_CASE(
    "convolution: Winograd's tiles agree with plain loops, at random sizes and on every instruction set") {
  std::mt19937_64 random(7);
  const auto from = [&random](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  int taken = 0;
  for (int i = 0; i < 60; ++i) {
    const Shape shape{from(1, 3), 16 * from(2, 5), from(3, 13), from(3, 13)};
    const int64_t out = 16 * from(2, 5), padding = from(0, 2);
    const DType dtype = i % 3 == 2 ? bf16 : f32;
    const Tensor x = random_tensor(shape, dtype, 100 + i),
                 w = random_tensor({out, shape[1], 3, 3}, dtype, 200 + i);
    const ConvolutionGeometry g = ops::convolution_geometry("test", 2, x, w, {}, 1, padding, 1, 1);
    taken += kernels::cpu::winograd_takes(g);
    const Tensor dy = random_tensor(g.y_shape(), dtype, 300 + i), bias = random_tensor({out}, dtype, 400 + i);
    const PlainLoops expected(g, elements(x), elements(w), elements(dy));
    for (const kernels::cpu::Isa isa : kernels::cpu::all_isas) {
      if (!kernels::cpu::isa_available(isa)) continue;
      const kernels::cpu::IsaScope scope(isa);
      CAPTURE(i);
      CAPTURE(kernels::cpu::name(isa));
      const Tensor given = in_layout(true, x), incoming = in_layout(true, dy);
      // Sums of up to 720 products below 1; the transforms multiply f32's rounding by about 10. A result of
      // bf16 below 64 is rounded by at most 2^-3.
      const double tolerance = dtype == f32 ? 2e-4 : 0x1p-3;
      const Tensor y = ops::convolution(g, given, w);
      CHECK(distance(y, expected.y) <= tolerance);
      const Tensor with_bias = ops::convolution(g, given, w, bias);
      CHECK(distance(with_bias.select(0, 0).select(0, 17), [&] {
              std::vector<double> row;
              for (int64_t p = 0; p < g.positions(); ++p)
                row.push_back(expected.y[static_cast<size_t>(17 * g.positions() + p)] + elements(bias)[17]);
              return row;
            }()) <= tolerance);
      CHECK(distance(ops::convolution_input_backward(g, incoming, w), expected.dx) <= tolerance);
      const Tensor dw = Tensor::zeros(w.shape(), f32);
      ops::convolution_weight_backward(g, incoming, given, dw);
      CHECK(distance(dw, expected.dw) <= 2e-4);
      ops::convolution_weight_backward(g, incoming, given, dw, true);
      std::vector<double> twice = expected.dw;
      for (double& value : twice) value *= 2;
      CHECK(distance(dw, twice) <= 4e-4);
    }
  }
  CHECK(taken > 30);
}

TEST_CASE("convolution: no number of threads changes a bit of a channels-last result or gradient") {
  struct Size {
    Shape x;
    int64_t out, kernel, stride;
  };
  for (const Size& s :
       {Size{{5, 64, 17, 15}, 96, 3, 1}, Size{{70, 32, 16, 16}, 64, 3, 1}, Size{{5, 64, 16, 16}, 96, 3, 2},
        Size{{5, 64, 16, 16}, 96, 1, 2}, Size{{9, 3, 32, 32}, 64, 3, 1}, Size{{2, 256, 8, 8}, 256, 3, 1}})
    for (const DType dtype : {f32, bf16}) {
      const Tensor x = in_layout(true, random_tensor(s.x, dtype, 1)),
                   w = random_tensor({s.out, s.x[1], s.kernel, s.kernel}, dtype, 2);
      const ConvolutionGeometry g =
          ops::convolution_geometry("test", 2, x, w, {}, s.stride, s.kernel / 2, 1, 1);
      const Tensor dy = in_layout(true, random_tensor(g.y_shape(), dtype, 3));
      const int before = num_threads();
      std::vector<Tensor> first;
      for (const int threads : {1, 2, 3, 7}) {
        set_num_threads(threads);
        const Tensor dw = Tensor::empty(w.shape(), f32);
        ops::convolution_weight_backward(g, dy, x, dw);
        const std::vector<Tensor> results{ops::convolution(g, x, w).contiguous(),
                                          ops::convolution_input_backward(g, dy, w).contiguous(), dw};
        if (first.empty()) first = results;
        CAPTURE(to_string(s.x));
        CAPTURE(to_string(dtype));
        CAPTURE(threads);
        for (size_t i = 0; i < 3; ++i) CHECK(same_bits(results[i], first[i]));
      }
      set_num_threads(before);
    }
}

TEST_CASE("convolution: the same bits in every run at one number of threads") {
  const Tensor x = random_tensor({5, 32, 17, 15}, f32, 1), w = random_tensor({32, 32, 3, 3}, f32, 2);
  const ConvolutionGeometry g = ops::convolution_geometry("test", 2, x, w, {}, 1, 1, 1, 1);
  const auto any = [](const Tensor&) { return true; };
  for (const MatmulBackend backend : backends()) {
    const BackendScope scope(backend);
    CHECK(reference::repeats_at_each_number_of_threads([&] { return ops::convolution(g, x, w); }, any));
    CHECK(reference::repeats_at_each_number_of_threads(
        [&] { return ops::convolution_input_backward(g, x, w); }, any));
    const auto weight_gradient = [&] {
      const Tensor dw = Tensor::empty(w.shape());
      ops::convolution_weight_backward(g, x, x, dw);
      return dw;
    };
    CHECK(reference::repeats_at_each_number_of_threads(weight_gradient, any));
  }
  const BackendScope own(MatmulBackend::eigen);
  CHECK(reference::same_for_any_number_of_threads([&] { return ops::convolution(g, x, w); }));
}

TEST_CASE("conv_transpose: the transpose of the convolution as a linear map") {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const RandomCase c(seed);
    const ConvolutionGeometry& g = c.geometry;
    const Tensor x = random_tensor(g.y_shape(), f64, seed), w = random_tensor(c.weight, f64, seed + 1);
    Shape further;
    for (int i = 0; i < c.ndim; ++i) {
      const int at = 3 - c.ndim + i;
      further.push_back(g.in[at] - ((g.out[at] - 1) * g.stride[at] - 2 * g.padding[at] +
                                    g.dilation[at] * (g.kernel[at] - 1) + 1));
    }
    const auto function = c.ndim == 1   ? ops::conv_transpose1d
                          : c.ndim == 2 ? ops::conv_transpose2d
                                        : ops::conv_transpose3d;
    const Tensor y = function(x, w, {}, c.stride, c.padding, further, c.groups, c.dilation);
    const PlainLoops expected(g, std::vector<double>(static_cast<size_t>(c.x.numel())), elements(w),
                              elements(x));
    CHECK(y.shape() == c.x);
    CHECK(distance(y, expected.dx) == 0);
  }
}

TEST_CASE("unfold and fold: columns whose product with the weight is the convolution, and the transpose") {
  const Tensor x = random_tensor({2, 3, 6, 5}, f64, 1), w = random_tensor({4, 3, 3, 2}, f64, 2);
  const Tensor columns = ops::unfold(x, {3, 2}, {1, 2}, 1, {2, 1});
  CHECK(columns.shape() == Shape{2, 18, 15});
  const Tensor product = ops::matmul(w.reshape({4, 18}), columns).reshape({2, 4, 3, 5});
  CHECK(distance(product, elements(ops::conv2d(x, w, {}, {2, 1}, 1, {1, 2}))) == 0);
  // <unfold(x), c> = <x, fold(c)>
  const Tensor c = random_tensor(columns.shape(), f64, 3),
               folded = ops::fold(c, {6, 5}, {3, 2}, {1, 2}, 1, {2, 1});
  double left = 0, right = 0;
  for (int64_t i = 0; i < c.numel(); ++i) left += reference::element(columns, i) * reference::element(c, i);
  for (int64_t i = 0; i < x.numel(); ++i) right += reference::element(x, i) * reference::element(folded, i);
  CHECK(left == right);
  CHECK(ops::unfold(ops::cast(x, bf16), 2).dtype() == bf16);
}

TEST_CASE("convolution: FLOPs are counted, on meta too") {
  Cost cost;
  const CostScope scope(cost);
  ops::conv2d(Tensor::empty({2, 4, 8, 8}, f32, meta()), Tensor::empty({6, 2, 3, 3}, f32, meta()), {}, 1, 1, 1,
              2);
  CHECK(cost.flops == 2 * 2 * 64 * 6 * 2 * 9);
  ops::conv_transpose2d(Tensor::zeros({2, 4, 8, 8}), Tensor::zeros({4, 6, 3, 3}), {}, 1, 1);
  CHECK(cost.flops == 2 * 2 * 64 * 6 * 2 * 9 + 2 * 2 * 64 * 4 * 6 * 9);
}

TEST_CASE("convolution: errors name the place, what was expected and what was given") {
  const Tensor x = Tensor::zeros({1, 4, 5, 5}), w = Tensor::zeros({6, 4, 3, 3});
  const auto contains = [](const char* part) { return doctest::Contains(part); };
  CHECK_THROWS_WITH_AS(ops::conv2d(x, w, {}, 1, 0, 1, 3),
                       contains("conv2d: 3 groups do not divide the 4 input"), ShapeError);
  CHECK_THROWS_WITH_AS(ops::conv2d(x, Tensor::zeros({5, 2, 3, 3}), {}, 1, 0, 1, 2),
                       contains("2 groups do not divide the 5 output channels"), ShapeError);
  CHECK_THROWS_WITH_AS(ops::conv2d(x, w, {}, 1, 0, 1, 0), contains("at least 1 group, got 0"), ValueError);
  CHECK_THROWS_WITH_AS(
      ops::conv2d(x, Tensor::zeros({6, 4, 7, 3}), {}, 1, {0, 1}),
      contains("the kernel (7, 3) with dilation (1, 1) is larger than the padded input (5, 7)"), ShapeError);
  CHECK_THROWS_WITH_AS(ops::conv2d(x, w, {}, 1, 0, 3), contains("with dilation (3, 3) is larger"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(ops::conv2d(x, Tensor::zeros({6, 3, 3, 3})),
                       contains("the weight (6, 3, 3, 3) takes 3 channels for each of 1 groups, x has 4"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(ops::conv2d(x, Tensor::zeros({6, 4, 3})),
                       contains("expected a weight of 4 dimensions, got (6, 4, 3)"), ShapeError);
  CHECK_THROWS_WITH_AS(ops::conv2d(Tensor::zeros({4, 5}), w), contains("conv2d: expected x of 4 dimensions"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(ops::conv2d(x, Tensor::zeros({6, 4, 0, 3})), contains("without an extent of 0"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(ops::conv2d(x, w, {}, -1), contains("expected a stride of at least 1, got (-1,)"),
                       ValueError);
  CHECK_THROWS_WITH_AS(ops::conv2d(x, w, {}, 1, -2), contains("expected a padding of at least 0, got (-2,)"),
                       ValueError);
  CHECK_THROWS_WITH_AS(ops::conv2d(x, w, {}, {1, 1, 1}),
                       contains("expected 1 or 2 entries of stride, got (1, 1, 1)"), ShapeError);
  CHECK_THROWS_WITH_AS(ops::conv2d(x, w, {}, 2, "same"), contains("padding \"same\" needs a stride of 1"),
                       ValueError);
  CHECK_THROWS_WITH_AS(ops::conv2d(x, w, {}, 1, "full"), contains("expected \"same\", \"valid\" or amounts"),
                       ValueError);
  CHECK_THROWS_WITH_AS(ops::conv2d(x, w, Tensor::zeros({5})),
                       contains("expected a bias of the 6 output channels, got (5,)"), ShapeError);
  CHECK_THROWS_AS(ops::conv2d(x, w.to(f64)), DTypeError);
  CHECK_THROWS_AS(ops::conv2d(x.to(i64), w.to(i64)), DTypeError);
  CHECK_THROWS_AS(ops::conv2d(x, w.to(meta())), DeviceError);
  CHECK_THROWS_WITH_AS(ops::conv_transpose2d(x, w),
                       contains("the weight (6, 4, 3, 3) takes 6 channels, x has 4"), ShapeError);
  CHECK_THROWS_WITH_AS(ops::conv_transpose2d(x, Tensor::zeros({4, 2, 3, 3}), {}, 2, 0, 2),
                       contains("expected an output_padding below the stride (2, 2)"), ValueError);
  CHECK_THROWS_WITH_AS(ops::conv_transpose2d(x, Tensor::zeros({4, 2, 3, 3}), {}, 1, 4),
                       contains("gives an extent of -1"), ShapeError);
  CHECK_THROWS_WITH_AS(ops::unfold(x, 6), contains("unfold: the kernel (6, 6)"), ShapeError);
  CHECK_THROWS_WITH_AS(ops::fold(Tensor::zeros({1, 8, 5}), 4, 2),
                       contains("has 9 windows, x (1, 8, 5) has 5"), ShapeError);
  CHECK_THROWS_WITH_AS(ops::fold(Tensor::zeros({1, 7, 9}), 4, 2), contains("do not divide the 7 rows"),
                       ShapeError);
}
