// Dropout on a device: the CPU's mask, and its bits, in every operation that drops.
#include <doctest/doctest.h>

#include <vector>

#include "tensor/error.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/ops/creation/random.h"
#include "tensor/ops/indexing/embedding_add.h"
#include "tensor/ops/layers/dropout.h"
#include "tensor/ops/layers/normalization.h"
#include "tensor/random/random_context.h"
#include "tests/cuda/device/on_device.h"

using namespace tessera;

namespace {

constexpr DType floating[] = {f64, f32, bf16, f16};

Tensor values(const Shape& shape, DType dtype) {
  return ops::cast(randn(shape), dtype);
}

/// Samples that are no evenly spaced list.
std::vector<int64_t> scattered(int64_t count) {
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < count; ++i) samples.push_back(i * i % 7919 + 3 * i);
  return samples;
}

}  // namespace

TEST_CASE("cuda: dropout has the CPU's bits, for samples in any place and number") {
  const Device device = test::device_under_test();
  manual_seed(3);
  // Evenly spaced samples are a rule, few are the launch's arguments, more are carried to the device.
  for (const int64_t batch : {3, 40, 900}) {
    const std::vector<int64_t> lists[] = {{}, scattered(batch)};
    for (const std::vector<int64_t>& samples : lists) {
      const RandomContextScope scope({.seed = 1, .step = 6, .samples = samples});
      for (const DType dtype : floating) {
        const Tensor x = values({batch, 5, 7}, dtype);
        CHECK(test::have_same_bits(ops::dropout(x.to(device), 0.3, 77), ops::dropout(x, 0.3, 77)));
        CHECK(test::have_same_bits(ops::dropout(x.to(device), 0.3, 77, 13), ops::dropout(x, 0.3, 77, 13)));
      }
    }
  }
  // Time first, and rows of samples: (T, B, C) and (B T, C).
  const RandomContextScope scope({.seed = 1, .step = 2, .samples = {9, 2, 4}});
  const ops::DropoutMask time_first{.probability = 0.5, .key = 8, .samples = samples_along(1)};
  const Tensor x = values({6, 3, 10}, f32), rows = values({18, 8}, f32);
  CHECK(test::have_same_bits(ops::dropout(x.to(device), time_first), ops::dropout(x, time_first)));
  const ops::DropoutMask by_rows{.probability = 0.5, .key = 8, .samples = samples_along(0, 6)};
  CHECK(test::have_same_bits(ops::dropout(rows.to(device), by_rows), ops::dropout(rows, by_rows)));
}

TEST_CASE("cuda: a residual, embeddings and a norm after dropout have the CPU's mask") {
  const Device device = test::device_under_test();
  const RandomContextScope scope({.seed = 1, .step = 4, .samples = {5, 1, 8, 2}});
  const ops::DropoutMask mask{.probability = 0.25, .key = 21};
  manual_seed(4);
  for (const DType dtype : floating)
    for (const int64_t width : {24, 37}) {
      CAPTURE(width);
      const Tensor x = values({4, 6, width}, dtype), delta = values({4, 6, width}, dtype);
      CHECK(test::have_same_bits(ops::add_dropout(x.to(device), delta.to(device), mask),
                                 ops::add_dropout(x, delta, mask)));
      const Tensor table = values({11, width}, dtype), positions = values({6, width}, dtype),
                   ids = randint(0, 11, {4, 6});
      for (const ops::DropoutMask& used : {mask, ops::DropoutMask()})
        CHECK(test::have_same_bits(
            ops::embedding_add(ids.to(device), table.to(device), positions.to(device), used),
            ops::embedding_add(ids, table, positions, used)));
      const Tensor weight = values({width}, dtype), bias = values({width}, dtype);
      const ops::Normalized here = ops::add_layer_norm(x, delta, mask, weight, bias, 1e-5, 1),
                            there = ops::add_layer_norm(x.to(device), delta.to(device), mask,
                                                        weight.to(device), bias.to(device), 1e-5, 1);
      CHECK(test::have_same_bits(there.sum, here.sum));
      const double tolerance = dtype == f64 ? 1e-13 : dtype == f32 ? 2e-6 : dtype == bf16 ? 0x1p-7 : 0x1p-10;
      CHECK(test::relative_difference(there.y, here.y) < tolerance);
      const ops::NormalizationNeedsGrad all{.x = true, .weight = true, .bias = true, .delta = true};
      const auto backward = [&](Device where) {
        return ops::add_normalization_backward(x.to(where), delta.to(where), here.sum.to(where), mask,
                                               weight.to(where), here.mean.to(where), here.rstd.to(where), 1,
                                               all);
      };
      const ops::NormalizationGradients expected = backward(cpu()), got = backward(device);
      CHECK(test::relative_difference(got.x, expected.x) < 4 * tolerance);
      CHECK(test::relative_difference(got.delta, expected.delta) < 4 * tolerance);
      CHECK(test::relative_difference(got.weight, expected.weight) < 1e-5);
      CHECK(test::relative_difference(got.bias, expected.bias) < 1e-5);
    }
}

TEST_CASE("cuda: the gradients of both embedding tables, twice with the same bits") {
  const Device device = test::device_under_test();
  manual_seed(5);
  for (const DType dtype : floating) {
    const Tensor dy = values({5, 6, 20}, dtype), ids = randint(0, 9, {5, 6});
    const DType sums = dtype == f64 ? f64 : f32;
    const auto run = [&](Device where) {
      const Tensor table = ops::ones({9, 20}, sums).to(where), positions = ops::ones({6, 20}, sums).to(where);
      ops::embedding_add_backward(dy.to(where), ids.to(where), table, positions);
      return std::vector<Tensor>{table, positions};
    };
    const std::vector<Tensor> here = run(cpu()), there = run(device), again = run(device);
    for (size_t i = 0; i < 2; ++i) {
      CHECK(test::relative_difference(there[i], here[i]) < 1e-6);
      CHECK(test::have_same_bits(there[i], again[i]));
    }
  }
}

TEST_CASE("cuda: an id outside the table is an error when the host waits, and reads no memory") {
  const Device device = test::device_under_test();
  const Tensor ids = Tensor::from(std::vector<int64_t>{0, 3, 7, 1}, {2, 2});
  const Tensor y = ops::embedding_add(ids.to(device), ops::ones({4, 8}, f32).to(device),
                                      ops::ones({2, 8}, f32).to(device));
  std::string message;
  try {
    static_cast<void>(y.to(cpu()));
  } catch (const IndexError& error) {
    message = error.what();
  }
  CHECK(message == "embedding_add: index 7 at position (1, 0) is outside [0, 4)");
}
