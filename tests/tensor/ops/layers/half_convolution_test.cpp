// Convolutions of contiguous tensors of half types: in f32, some images after the others, each rounded once.

#include <doctest/doctest.h>

#include "tensor/memory/account.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/layers/convolution.h"
#include "tests/tensor/test_values.h"

using namespace tessera;

namespace {

/// Three images, of which two have f32 copies of more than 16 MB.
struct Images {
  Tensor x = random_tensor({3, 2, 1024, 1100}, bf16, 1);
  Tensor weight = random_tensor({1, 2, 3, 3}, bf16, 2);
  ConvolutionGeometry g{.batch = 3,
                        .in_channels = 2,
                        .out_channels = 1,
                        .in = {1, 1024, 1100},
                        .out = {1, 1022, 1098},
                        .kernel = {1, 3, 3}};
  Tensor dy = random_tensor({3, 1, 1022, 1098}, bf16, 3);

  ConvolutionGeometry one() const {
    ConvolutionGeometry single = g;
    single.batch = 1;
    return single;
  }
};

template <class Run>
int64_t peak_bytes(const Run& run) {
  const auto account = make_intrusive<MemoryAccount>(), plan = make_intrusive<MemoryAccount>();
  const AccountScope counting(account);
  const MetaAccountScope planning(plan);
  run();
  return account->total().peak + plan->total().peak;
}

Tensor on_meta(const Tensor& x) {
  return Tensor::empty(x.shape(), x.dtype(), meta());
}

}  // namespace

TEST_CASE("convolution: bf16 images one after another have the bits of each by itself") {
  const Images i;
  const Tensor y = ops::convolution(i.g, i.x, i.weight, {});
  const Tensor dx = ops::convolution_input_backward(i.g, i.dy, i.weight, {});
  const Tensor dw = Tensor::zeros(i.weight.shape(), f32), sum = Tensor::zeros(i.weight.shape(), f32);
  ops::convolution_weight_backward(i.g, i.dy, i.x, dw, false);
  for (int64_t n = 0; n < 3; ++n) {
    const Tensor image = i.x.narrow(0, n, 1), gradient = i.dy.narrow(0, n, 1);
    CHECK(largest_difference(y.narrow(0, n, 1), ops::convolution(i.one(), image, i.weight, {})) == 0);
    CHECK(largest_difference(dx.narrow(0, n, 1),
                             ops::convolution_input_backward(i.one(), gradient, i.weight, {})) == 0);
    ops::convolution_weight_backward(i.one(), gradient, image, sum, true);
  }
  CHECK(largest_difference(dw, sum) == 0);
  // Added to what is there, and in the gradient's own dtype.
  ops::convolution_weight_backward(i.g, i.dy, i.x, sum, true);
  const Tensor rounded = Tensor::zeros(i.weight.shape(), bf16);
  ops::convolution_weight_backward(i.g, i.dy, i.x, rounded, false);
  for (int64_t k = 0; k < dw.numel(); ++k)
    CHECK(sum.data<float>()[k] == doctest::Approx(2 * dw.data<float>()[k]).epsilon(1e-4));
  CHECK(largest_difference(rounded, ops::cast(dw, bf16)) == 0);
}

TEST_CASE("convolution: bf16 images have f32 copies of few at once, and a run on meta counts them") {
  const Images i;
  const Tensor x = on_meta(i.x), weight = on_meta(i.weight), dy = on_meta(i.dy);
  const Tensor dw = Tensor::zeros(i.weight.shape(), bf16), meta_dw = on_meta(dw);
  const int64_t images = i.x.numel() * 4;  // all of them in f32
  const auto check = [&](const auto& run, const auto& planned) {
    const int64_t bytes = peak_bytes(run);
    CHECK(bytes == peak_bytes(planned));
    CHECK(bytes < images);
    CHECK(bytes > images / 4);
  };
  check([&] { ops::convolution(i.g, i.x, i.weight, {}); }, [&] { ops::convolution(i.g, x, weight, {}); });
  check([&] { ops::convolution_input_backward(i.g, i.dy, i.weight, {}); },
        [&] { ops::convolution_input_backward(i.g, dy, weight, {}); });
  check([&] { ops::convolution_weight_backward(i.g, i.dy, i.x, dw, true); },
        [&] { ops::convolution_weight_backward(i.g, dy, x, meta_dw, true); });
}
