#include "autograd/autocast/autocast.h"

#include <doctest/doctest.h>

#include <cmath>
#include <thread>

#include "autograd/debug/graph_dot.h"
#include "autograd/functional/context.h"
#include "autograd/functional/custom_function.h"
#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/layers/loss.h"
#include "autograd/functions/layers/normalization.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/recompute/checkpoint.h"
#include "tensor/error.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/matmul.h"
#include "tests/support/error_text.h"

using namespace tessera;

namespace {

Tensor values(const Shape& shape, double step) {
  Tensor x = Tensor::empty(shape, f32);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = static_cast<float>(std::sin(step * static_cast<double>(i + 1)));
  return x;
}

struct Layers {
  Variable first = Variable::parameter(values({8, 6}, 0.7), true, "first");
  Variable second = Variable::parameter(values({3, 8}, 0.9), true, "second");
  Variable weight = Variable::parameter(values({8}, 0.3), true, "weight");

  Variable operator()(const Variable& x) const {
    return linear(layer_norm(relu(linear(x, first)), weight), second);
  }
  std::vector<Tensor> gradients() const {
    std::vector<Tensor> list;
    for (const Variable& each : {first, second, weight}) {
      list.push_back(each.grad().value().clone());
      each.set_grad({});
    }
    return list;
  }
};

bool are_equal(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  bool equal = a.size() == b.size();
  for (size_t i = 0; equal && i < a.size(); ++i)
    equal = a[i].dtype() == b[i].dtype() && a[i].array_equal(b[i]);
  return equal;
}

}  // namespace

TEST_CASE("autocast: scopes nest, f32 ends it, and other threads have none") {
  const Variable x = values({2, 2}, 1);
  const auto dtype = [&] { return matmul(x, x).dtype(); };
  CHECK(!is_autocast_enabled());
  CHECK(dtype() == f32);
  {
    const AutocastScope outer(bf16);
    CHECK(is_autocast_enabled());
    CHECK(dtype() == bf16);
    {
      const AutocastScope inner(f16);
      CHECK(dtype() == f16);
      const AutocastScope off(f32);
      CHECK(!is_autocast_enabled());
      CHECK(dtype() == f32);
    }
    CHECK(autocast_dtype() == bf16);
    DType other = bf16;
    std::thread([&] { other = autocast_dtype(); }).join();
    CHECK(other == f32);
    CHECK(message_of<DTypeError>([] { const AutocastScope wrong(i64); }) ==
          "AutocastScope: expected bf16, f16, or f32 for no autocast, got i64");
    CHECK(dtype() == bf16);
  }
  CHECK(dtype() == f32);
}

TEST_CASE("autocast: backward is the same in the scope and after it") {
  const Layers layers;
  const Variable x = values({5, 6}, 0.4), target = values({5, 3}, 0.2);
  Variable loss;
  {
    const AutocastScope autocast(bf16);
    loss = mse_loss(layers(x), target);
    loss.backward({.retain_graph = true});
  }
  const std::vector<Tensor> inside = layers.gradients();
  for (const Tensor& gradient : inside) CHECK(gradient.dtype() == f32);
  loss.backward();
  CHECK(are_equal(layers.gradients(), inside));
  mse_loss(layers(x), target).backward();
  CHECK(!are_equal(layers.gradients(), inside));  // f32 has other gradients
}

TEST_CASE("autocast: a gradient can be differentiated again") {
  // Small integers: bf16 has them all.
  const Tensor a = Tensor::from({1.0F, 0.0F, 2.0F, 0.0F, 1.0F, 1.0F}, {2, 3});
  const Variable w = Variable::leaf(Tensor::from({1.0F, -1.0F, 2.0F, 0.0F, 1.0F, 1.0F}, {3, 2})), x = a;
  Variable y;
  {
    const AutocastScope autocast(bf16);
    y = sum(square(matmul(x, w)));
  }
  const Variable gradient = grad(y, {w}, {.create_graph = true})[0];
  const Variable second = grad(sum(square(gradient)), {w})[0];
  CHECK(gradient.dtype() == f32);
  CHECK(second.dtype() == f32);
  // y = |x w|^2, so the gradient is 2 x^T x w, and that of its square 8 (x^T x)^2 w.
  const Tensor s = ops::matmul(a.transpose(0, 1), a);
  CHECK(gradient.value().array_equal(ops::matmul(s, w.value()).mul(2.0)));
  CHECK(second.value().array_equal(ops::matmul(ops::matmul(s, s), w.value()).mul(8.0)));
}

TEST_CASE("autocast: a checkpointed segment runs again under the autocast of its forward") {
  const Layers layers;
  const Variable x = Variable::leaf(values({5, 6}, 0.4)), target = values({5, 3}, 0.2);
  const auto gradients = [&](bool in_scope, bool checkpointed) {
    Variable y;
    {
      const AutocastScope autocast(in_scope ? bf16 : f32);
      const auto segment = [&](const Variable& in) { return layers(in); };
      y = checkpointed ? checkpoint(segment, x) : segment(x);
    }
    const Variable loss = mse_loss(y, target);
    const AutocastScope other(in_scope ? f32 : bf16);  // of the backward
    loss.backward();
    std::vector<Tensor> list = layers.gradients();
    list.push_back(x.grad().value().clone());
    x.set_grad({});
    return list;
  };
  CHECK(are_equal(gradients(true, true), gradients(true, false)));
  CHECK(are_equal(gradients(false, true), gradients(false, false)));
  CHECK(!are_equal(gradients(true, true), gradients(false, true)));
}

TEST_CASE("autocast: the backward of a custom function runs under the autocast of its forward") {
  DType in_backward = f32;
  const auto twice = autograd::function(
      "twice",
      [](autograd::Context& ctx, const Variable& x) {
        ctx.save(x);
        return x * 2.0;
      },
      [&](autograd::Context& ctx, const Variable& dy) {
        in_backward = matmul(ctx.saved(0), ctx.saved(0)).dtype();
        return dy * 2.0;
      });
  const Variable x = Variable::leaf(values({2, 2}, 1));
  Variable y;
  {
    const AutocastScope autocast(bf16);
    y = twice(x);
  }
  sum(y).backward();
  CHECK(in_backward == bf16);
  CHECK(autocast_dtype() == f32);
}

TEST_CASE("autocast: no cast of a weight is held for backward") {
  const Variable w = Variable::parameter(values({64, 64}, 0.7), true, "w");
  const Variable x = Variable::leaf(values({1, 64}, 0.4));
  Variable y;
  {
    const AutocastScope autocast(bf16);
    y = sum(linear(x, w));
  }
  CHECK(saved_bytes(y) == 64 * 2);  // the cast of x
  y.backward();
  Variable expected;
  {
    const AutocastScope autocast(bf16);
    expected = sum(linear(x.value(), w.value()));
  }
  CHECK(y.item() == expected.item());
  // Each element of x's gradient is the sum of a column of w in bf16.
  const Tensor columns = ops::matmul(ops::ones({1, 64}, bf16), w.value().to(bf16)).to(f32);
  CHECK(x.grad().value().array_equal(columns));
}
