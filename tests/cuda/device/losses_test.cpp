// Losses on a device: the CPU's values, in the order of chunks, with ignored targets, weights and smoothing.
#include <doctest/doctest.h>

#include "tensor/cuda/layers/loss.h"
#include "tensor/error.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/layers/loss.h"
#include "tensor/ops/losses/elementwise_loss.h"
#include "tensor/ops/losses/soft_cross_entropy.h"
#include "tests/cuda/device/on_device.h"

using namespace tessera;
using ops::LossReduction;

namespace {

constexpr DType floating[] = {f64, f32, bf16, f16};

Tensor values(const Shape& shape, DType dtype) {
  return ops::cast(randn(shape), dtype);
}

double tolerance_of(DType dtype) {
  return dtype == f64 ? 1e-13 : dtype == f32 ? 4e-6 : dtype == bf16 ? 0x1p-6 : 0x1p-9;
}

}  // namespace

TEST_CASE("cuda: cross entropy of a linear layer, and all gradients") {
  const Device device = test::device_under_test();
  manual_seed(1);
  for (const DType dtype : floating)
    for (const double smoothing : {0.0, 0.1})
      for (const ops::LossReduction reduction : {ops::LossReduction::mean, ops::LossReduction::sum}) {
        const Tensor x = values({4, 6, 16}, dtype), weight = values({11, 16}, dtype),
                     bias = values({11}, dtype), class_weight = ops::abs(values({11}, dtype));
        const Tensor targets = randint(0, 11, {4, 6});
        targets.select(0, 1).select(0, 2).copy_from(Tensor::scalar(int64_t{-100}));
        const ops::CrossEntropyOptions options{.label_smoothing = smoothing, .reduction = reduction};
        for (const Tensor& classes : {Tensor(), class_weight}) {
          const auto run = [&](Device where) {
            return ops::linear_cross_entropy(x.to(where), weight.to(where), bias.to(where), targets.to(where),
                                             classes.defined() ? classes.to(where) : classes, options,
                                             {.x = true, .weight = true, .bias = true});
          };
          const ops::LinearCrossEntropy here = run(cpu()), there = run(device);
          CHECK(test::relative_difference(there.loss, here.loss) < tolerance_of(dtype));
          CHECK(test::relative_difference(there.x, here.x) < tolerance_of(dtype));
          CHECK(test::relative_difference(there.weight, here.weight) < 4 * tolerance_of(dtype));
          CHECK(test::relative_difference(there.bias, here.bias) < 4 * tolerance_of(dtype));
        }
      }
}

TEST_CASE("cuda: the losses of chunks are added to one sum, by one divisor") {
  const Device device = test::device_under_test();
  manual_seed(2);
  const Tensor logits = values({10, 70}, f32), targets = randint(0, 70, {10});
  const ops::CrossEntropy whole = ops::cross_entropy(logits, targets);
  const Tensor divisor = Tensor::empty({}, f64, device), sum = Tensor::zeros({}, f64, device);
  const Tensor parts = logits.to(device), ids = targets.to(device);
  kernels::cuda::cross_entropy_divisor(ids, 70, {}, {}, divisor);
  for (const int64_t first : {0, 4, 8}) {
    const int64_t count = first == 8 ? 2 : 4;
    kernels::cuda::cross_entropy_in_place(parts.narrow(0, first, count), ids.narrow(0, first, count), {}, {},
                                          divisor, true, sum);
  }
  CHECK(divisor.item() == 10);
  CHECK(test::relative_difference(ops::div(sum, divisor), whole.loss) < 1e-6);
  CHECK(test::relative_difference(
            parts, ops::cross_entropy_backward(ops::ones({}, f32), logits, targets, {}, whole, {})) < 1e-6);
}

TEST_CASE("cuda: a target that is no class is an error when the host waits") {
  const Device device = test::device_under_test();
  const Tensor x = ops::ones({2, 4}, f32).to(device), weight = ops::ones({3, 4}, f32).to(device);
  const Tensor targets = Tensor::from(std::vector<int64_t>{1, 5}).to(device);
  std::string message;
  try {
    static_cast<void>(ops::linear_cross_entropy(x, weight, {}, targets, {}, {}).loss.item());
  } catch (const IndexError& error) {
    message = error.what();
  }
  CHECK(message ==
        "cross_entropy: target 5 at position (1,) is not a class: they go from 0 to 2, and -100 is ignored");
}

TEST_CASE("cuda: losses of single elements have the CPU's bits, and their sums its values") {
  const Device device = test::device_under_test();
  manual_seed(3);
  using Kind = ElementwiseLossKind;
  for (const DType dtype : floating)
    for (const Kind kind : {Kind::l1_loss, Kind::mse_loss, Kind::huber_loss, Kind::smooth_l1_loss,
                            Kind::bce_with_logits, Kind::binary_cross_entropy}) {
      CAPTURE(name_of(kind));
      const ElementwiseLoss f{kind, 0.7};
      const Tensor x = ops::cast(rand({33, 41}), dtype), target = ops::cast(rand({33, 41}), dtype);
      const Tensor x2 = x.to(device), target2 = target.to(device);
      CHECK(test::have_same_bits(ops::elementwise_loss(f, x2, target2, LossReduction::none),
                                 ops::elementwise_loss(f, x, target, LossReduction::none)));
      for (const LossReduction reduction : {LossReduction::mean, LossReduction::sum}) {
        CHECK(test::relative_difference(ops::elementwise_loss(f, x2, target2, reduction),
                                        ops::elementwise_loss(f, x, target, reduction)) <
              tolerance_of(dtype));
        const Tensor dloss = ops::full({}, 0.5, dtype);
        CHECK(
            test::have_same_bits(ops::elementwise_loss_backward(f, dloss.to(device), x2, target2, reduction),
                                 ops::elementwise_loss_backward(f, dloss, x, target, reduction)));
      }
      const Tensor dloss = values({33, 41}, dtype);
      CHECK(test::have_same_bits(
          ops::elementwise_loss_backward(f, dloss.to(device), x2.transpose(0, 1).transpose(0, 1), target2,
                                         LossReduction::none),
          ops::elementwise_loss_backward(f, dloss, x, target, LossReduction::none)));
    }
}

TEST_CASE("cuda: cross entropy with probabilities as targets") {
  const Device device = test::device_under_test();
  manual_seed(4);
  for (const DType dtype : floating)
    for (const double smoothing : {0.0, 0.2})
      for (const LossReduction reduction : {LossReduction::mean, LossReduction::sum, LossReduction::none}) {
        const Tensor logits = values({7, 90}, dtype), targets = ops::abs(values({7, 90}, dtype)),
                     weight = ops::abs(values({90}, dtype));
        const ops::CrossEntropyOptions options{.label_smoothing = smoothing, .reduction = reduction};
        const auto run = [&](Device where) {
          const ops::SoftCrossEntropy forward =
              ops::soft_cross_entropy(logits.to(where), targets.to(where), weight.to(where), options);
          return std::vector<Tensor>{
              forward.loss,
              ops::soft_cross_entropy_backward(
                  ops::full(forward.loss.shape(), 1, forward.loss.dtype(), where), logits.to(where),
                  targets.to(where), weight.to(where), forward.log_sum_exp, options)};
        };
        const std::vector<Tensor> here = run(cpu()), there = run(device);
        CHECK(test::relative_difference(there[0], here[0]) < 4 * tolerance_of(dtype));
        CHECK(test::relative_difference(there[1], here[1]) < 4 * tolerance_of(dtype));
      }
}
