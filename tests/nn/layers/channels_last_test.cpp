// Layers of images in channels-last layout: the same values and gradients as from contiguous images, and
// results that keep the layout.
#include "tensor/channels_last.h"

#include <doctest/doctest.h>

#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/images/batch_norm.h"
#include "autograd/functions/images/rearranging.h"
#include "autograd/functions/reduction.h"
#include "nn/layers/batch_norm.h"
#include "nn/materialize.h"
#include "tensor/ops/elementwise/cast.h"
#include "tests/support/error_text.h"
#include "tests/tensor/test_values.h"

using namespace tessera;

namespace {

/// Values and gradients of one call; all contiguous.
struct Run {
  std::vector<Tensor> values;
};

Tensor running(int64_t channels, double value) {
  return Tensor::from(std::vector<double>(static_cast<size_t>(channels), value));
}

enum class End { norm, norm_relu, norm_add_relu };

/// Forward, gradients and, on request, second derivatives of a norm, computed in `dtype`. x0 and the gradient
/// at the result have values of x0's dtype.
Run run(End end, const Tensor& x0, const Tensor& added0, bool channels_last, DType dtype, bool training,
        bool second = false) {
  const auto leaf = [&](const Tensor& t) {
    return Variable::leaf(in_layout(channels_last, ops::cast(t, dtype)));
  };
  const int64_t channels = x0.size(1);
  const Variable x = leaf(x0), added = leaf(added0);
  const DType statistics = dtype == f64 ? f64 : f32;
  const Variable w = Variable::leaf(random_tensor({channels}, statistics, 5)),
                 b = Variable::leaf(random_tensor({channels}, statistics, 6));
  const Tensor mean = running(channels, 0.25), variance = running(channels, 2);
  Variable y;
  if (end == End::norm) y = batch_norm(x, mean, variance, w, b, training);
  if (end == End::norm_relu) y = batch_norm_relu(x, mean, variance, w, b, training);
  if (end == End::norm_add_relu) y = batch_norm_add_relu(x, added, mean, variance, w, b, training);
  CHECK(is_channels_last(y.value()) == channels_last);
  const Variable loss =
      sum(y * Variable(in_layout(channels_last, ops::cast(random_tensor(x0.shape(), x0.dtype(), 7), dtype))));
  std::vector<Variable> inputs{x, w, b};
  if (end == End::norm_add_relu) inputs.push_back(added);
  std::vector<Variable> gradients = grad(std::vector<Variable>{loss}, inputs, {}, {.create_graph = second});
  if (second) gradients = grad(sum(square(gradients[0])) + sum(gradients[1]), {x, w});
  Run result{{y.value().contiguous(), mean, variance}};
  for (const Variable& g : gradients) result.values.push_back(g.value().contiguous());
  return result;
}

}  // namespace

TEST_CASE("channels_last: the layout changes, the values and the gradient do not") {
  const Variable x = Variable::leaf(random_tensor({2, 3, 4, 5}, f32, 1));
  const Variable y = channels_last(x);
  CHECK(is_channels_last(y.value()));
  CHECK(same_bits(y.value().contiguous(), x.value()));
  CHECK(channels_last(y).is_same(y));
  const Tensor dy = random_tensor({2, 3, 4, 5}, f32, 2);
  sum(y * Variable(dy)).backward();
  CHECK(same_bits(x.grad().value().contiguous(), dy));
  CHECK(contains(message_of<ShapeError>([] {
                   channels_last(Tensor::zeros({3, 4}));
                 }),
                 "expected x (N, C, ...) of 3 dimensions or more"));
}

TEST_CASE("channels last: batch norm, its relu and its sum equal those of contiguous images") {
  for (const End end : {End::norm, End::norm_relu, End::norm_add_relu})
    for (const DType dtype : {f64, f32, bf16})
      for (const bool training : {true, false})
        for (const Shape& shape : {Shape{3, 5, 4, 7}, Shape{2, 64, 9, 9}, Shape{7, 33, 2, 1, 3},
                                   Shape{1, 20, 31}, Shape{40, 16, 8, 8}}) {
          const Tensor x = random_tensor(shape, dtype, 1), added = random_tensor(shape, dtype, 2);
          // In f32 for half types: the relu then passes the same elements.
          const Run expected = run(end, x, added, false, dtype == bf16 ? f32 : dtype, training),
                    found = run(end, x, added, true, dtype, training);
          for (size_t i = 0; i < found.values.size(); ++i) {
            CAPTURE(static_cast<int>(end));
            CAPTURE(to_string(dtype));
            CAPTURE(to_string(shape));
            CAPTURE(i);
            // Sums of up to 2,560 values below 1 in another order. bf16 is rounded: results, and a gradient
            // of what passes, of values below 8.
            const double tolerance = dtype == f64 ? 1e-12 : dtype == f32 ? 3e-5 : 0.04;
            CHECK(largest_difference(found.values[i], to_f64(expected.values[i])) <= tolerance);
          }
        }
}

TEST_CASE("channels last: second derivatives of batch norm equal those of contiguous images") {
  const Tensor x = random_tensor({3, 4, 3, 2}, f64, 1), added = random_tensor({3, 4, 3, 2}, f64, 2);
  for (const End end : {End::norm, End::norm_relu, End::norm_add_relu})
    for (const bool training : {true, false}) {
      const Run expected = run(end, x, added, false, f64, training, true),
                found = run(end, x, added, true, f64, training, true);
      for (size_t i = 0; i < found.values.size(); ++i)
        CHECK(largest_difference(found.values[i], expected.values[i]) <= 1e-11);
    }
}

TEST_CASE("batch_norm_add_relu: equals the norm, a sum and relu; a sum of another shape is refused") {
  const Tensor x = random_tensor({3, 4, 5, 2}, f64, 1), added = random_tensor({3, 4, 5, 2}, f64, 2);
  for (const bool last : {false, true}) {
    const Variable a = Variable::leaf(in_layout(last, x)), p = Variable::leaf(in_layout(last, added));
    const Variable y = relu(batch_norm(a, {}, {}, {}, {}, true) + p);
    const Variable z = batch_norm_add_relu(a, p, {}, {}, {}, {}, true);
    CHECK(largest_difference(z.value().contiguous(), y.value().contiguous()) <= 1e-13);
    const Variable weights(random_tensor(x.shape(), f64, 3));
    const std::vector<Variable> expected = grad(sum(y * weights), {a, p}),
                                found = grad(sum(z * weights), {a, p});
    for (size_t i = 0; i < 2; ++i)
      CHECK(largest_difference(found[i].value().contiguous(), expected[i].value().contiguous()) <= 1e-12);
    CHECK_THROWS_AS(batch_norm_add_relu(a, Variable(Tensor::zeros({3, 4, 5, 3}, f64)), {}, {}, {}, {}, true),
                    ShapeError);
  }
  nn::BatchNorm2d layer(4);
  layer.to(f64);
  nn::materialize(layer, cpu(), 1);
  const Variable y = layer.norm_add_relu(x, added);
  const Variable expected = batch_norm_add_relu(x, added, {}, {}, *layer.weight, *layer.bias, true);
  CHECK(same_bits(y.value(), expected.value()));
  CHECK(layer.num_batches_tracked->item_i64() == 1);
}
