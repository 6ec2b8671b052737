#include <doctest/doctest.h>

#include "autograd/functions/activation.h"
#include "autograd/functions/activation_linear.h"
#include "autograd/functions/attention.h"
#include "autograd/functions/binary.h"
#include "autograd/functions/broadcasting.h"
#include "autograd/functions/cast.h"
#include "autograd/functions/dropout.h"
#include "autograd/functions/indexing.h"
#include "autograd/functions/loss.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/normalization.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/softmax.h"
#include "autograd/functions/sorting.h"
#include "autograd/functions/ternary.h"
#include "autograd/functions/unary.h"
#include "autograd/functions/view.h"

using namespace tessera;

TEST_CASE("an undefined Variable: every method throws a typed error") {
  const Variable none, x = Variable::leaf(Tensor::from({1.0, 2.0}));
  CHECK_FALSE(none.defined());
  CHECK_FALSE(none.requires_grad());
  CHECK_FALSE(none.detach().defined());
  CHECK_FALSE(none.is_same(x));
  CHECK_THROWS_WITH_AS(none.value(), doctest::Contains("undefined Variable"), ValueError);
  CHECK_THROWS_AS(none.dtype(), ValueError);
  CHECK_THROWS_AS(none.device(), ValueError);
  CHECK_THROWS_AS(none.shape(), ValueError);
  CHECK_THROWS_AS(none.rank(), ValueError);
  CHECK_THROWS_AS(none.size(0), ValueError);
  CHECK_THROWS_AS(none.numel(), ValueError);
  CHECK_THROWS_AS(none.item(), ValueError);
  CHECK_THROWS_AS(none.set_requires_grad(true), ValueError);
  CHECK_THROWS_AS(none.is_leaf(), ValueError);
  CHECK_THROWS_AS(none.is_parameter(), ValueError);
  CHECK_THROWS_AS(none.name(), ValueError);
  CHECK_THROWS_AS(none.set_name("x"), ValueError);
  CHECK_THROWS_AS(none.node(), ValueError);
  CHECK_THROWS_AS(none.grad(), ValueError);
  CHECK_THROWS_AS(none.set_grad({}), ValueError);
  CHECK_THROWS_AS(none.set_grad(x), ValueError);
  CHECK_THROWS_AS(none.set_gradient_buffer({}), ValueError);
  CHECK_THROWS_AS(none.set_gradient_buffer(x.value()), ValueError);
  CHECK_THROWS_AS(none.grad_dtype(), ValueError);
  CHECK_THROWS_AS(none.set_grad_dtype(f32), ValueError);
  CHECK_THROWS_AS(none.retain_grad(), Error);
  CHECK_THROWS_AS(none.set_value(x.value()), ValueError);
  CHECK_THROWS_AS(none.backward(), Error);
  CHECK_THROWS_AS(none.backward(x), Error);
  CHECK_THROWS_AS(none.register_hook([](const Variable& g) { return g; }), Error);
  CHECK_THROWS_AS(none.register_accumulated_hook([](const Variable&) {}), Error);
  CHECK_THROWS_AS(grad(x, {none}), Error);
  CHECK_THROWS_AS(grad(none, {x}), Error);
  const Variable inputs[] = {none};
  CHECK_THROWS_AS(backward({&x, 1}, {&x, 1}, {}, inputs), Error);
  CHECK_THROWS_AS(Variable::leaf({}), Error);
  CHECK_THROWS_AS(Variable::parameter({}), Error);
  CHECK_THROWS_AS(Variable::parameter({}, false), Error);
}

TEST_CASE("an undefined Variable: every differentiable function throws a typed error") {
  using Call = std::function<void(const Variable& none, const Variable& x)>;
  const Tensor ids = Tensor::from<int64_t>({0, 1}), mask = Tensor::from({true, false});
  const std::vector<Call> calls{
#define ONE(name) [](const Variable& n, const Variable&) { name(n); }
      ONE(relu),
      ONE(gelu),
      ONE(gelu_tanh),
      ONE(silu),
      ONE(softplus),
      ONE(tanh),
      ONE(sigmoid),
      ONE(neg),
      ONE(sum),
      ONE(mean),
      ONE(prod),
      ONE(max),
      ONE(min),
      ONE(var),
      ONE(tessera::std),
      ONE(norm),
      ONE(logsumexp),
      ONE(tril),
      ONE(triu),
      ONE(softmax),
      ONE(log_softmax),
      ONE(sort),
      ONE(cumsum),
      ONE(abs),
      ONE(square),
      ONE(sqrt),
      ONE(rsqrt),
      ONE(reciprocal),
      ONE(exp),
      ONE(exp2),
      ONE(expm1),
      ONE(log),
      ONE(log2),
      ONE(log10),
      ONE(log1p),
      ONE(sin),
      ONE(cos),
      ONE(tan),
      ONE(erf),
      ONE(erfc),
      ONE(sign),
      ONE(floor),
      ONE(ceil),
      ONE(round),
      ONE(trunc),
      ONE(flatten),
      ONE(layer_norm),
      ONE(rms_norm),
#undef ONE
#define TWO(name)                                           \
  [](const Variable& n, const Variable& x) { name(n, x); }, \
      [](const Variable& n, const Variable& x) { name(x, n); }
      TWO(relu_backward),
      TWO(gelu_backward),
      TWO(gelu_tanh_backward),
      TWO(silu_backward),
      TWO(softplus_backward),
      TWO(tanh_backward),
      TWO(sigmoid_backward),
      TWO(add),
      TWO(sub),
      TWO(mul),
      TWO(div),
      TWO(pow),
      TWO(maximum),
      TWO(minimum),
      TWO(add_),
      TWO(sub_),
      TWO(mul_),
      TWO(matmul),
      TWO(linear),
      TWO(mse_loss),
      TWO(bce_with_logits),
#undef TWO
      [](const Variable& n, const Variable& x) { activation_linear(Activation::relu, n, x, {}); },
      [](const Variable& n, const Variable& x) { activation_linear(Activation::relu, x, n, {}); },
      [](const Variable& n, const Variable&) { add(n, Scalar(1.0)); },
      [](const Variable& n, const Variable&) { mul(n, Scalar(1.0)); },
      [](const Variable& n, const Variable&) { pow(n, Scalar(1.0)); },
      [](const Variable& n, const Variable&) { sub(Scalar(1.0), n); },
      [](const Variable& n, const Variable&) { div(Scalar(1.0), n); },
      [](const Variable& n, const Variable&) { mul_(n, Scalar(1.0)); },
      [](const Variable& n, const Variable&) { n - 1.0; },
      [](const Variable& n, const Variable&) { n / 1.0; },
      [](const Variable& n, const Variable& x) { scaled_dot_product_attention(n, x, x); },
      [](const Variable& n, const Variable& x) { scaled_dot_product_attention(x, n, x); },
      [](const Variable& n, const Variable& x) { scaled_dot_product_attention(x, x, n); },
      [](const Variable& n, const Variable&) { self_attention(n, 1); },
      [](const Variable& n, const Variable&) { sum_to(n, {1}); },
      [](const Variable& n, const Variable&) { broadcast_to(n, {1}); },
      [](const Variable& n, const Variable&) { cast(n, f32); },
      [](const Variable& n, const Variable&) { dropout(n, 0.5, 1); },
      [](const Variable& n, const Variable&) { dropout(n, 0, 1); },
      [](const Variable& n, const Variable& x) { add_dropout(n, x, {}); },
      [](const Variable& n, const Variable& x) { add_dropout(x, n, {}); },
      [&](const Variable& n, const Variable&) { embedding(ids, n); },
      [&](const Variable& n, const Variable& x) { embedding_add(ids, n, x); },
      [&](const Variable& n, const Variable& x) { embedding_add(ids, x, n); },
      [&](const Variable& n, const Variable&) { index_select(n, 0, ids); },
      [&](const Variable& n, const Variable& x) { index_add(n, 0, ids, x); },
      [&](const Variable& n, const Variable& x) { index_add(x, 0, ids, n); },
      [&](const Variable& n, const Variable&) { gather(n, 0, ids); },
      [&](const Variable& n, const Variable& x) { scatter(n, 0, ids, x); },
      [&](const Variable& n, const Variable& x) { scatter(x, 0, ids, n); },
      [&](const Variable& n, const Variable& x) { scatter_add(n, 0, ids, x); },
      [&](const Variable& n, const Variable& x) { scatter_add(x, 0, ids, n); },
      [&](const Variable& n, const Variable&) { take_along(n, ids, 0); },
      [&](const Variable& n, const Variable&) { cross_entropy(n, ids); },
      [&](const Variable& n, const Variable& x) { linear_cross_entropy(n, x, ids); },
      [&](const Variable& n, const Variable& x) { linear_cross_entropy(x, n, ids); },
      [](const Variable& n, const Variable& x) { add_layer_norm(n, x); },
      [](const Variable& n, const Variable& x) { add_rms_norm(n, x); },
      [](const Variable& n, const Variable& x) {
        cat({x, n}, 0);
      },
      [](const Variable& n, const Variable& x) {
        stack(std::vector{x, n}, 0);
      },
      [](const Variable& n, const Variable&) { split(n, Shape{1}, 0); },
      [](const Variable& n, const Variable&) { chunk(n, 1, 0); },
      [](const Variable& n, const Variable&) { pad(n, {0}, {1}); },
      [](const Variable& n, const Variable&) { repeat(n, {1}); },
      [](const Variable& n, const Variable&) { flip(n, {0}); },
      [](const Variable& n, const Variable&) { roll(n, 1, 0); },
      [](const Variable& n, const Variable&) { topk(n, 1); },
      [](const Variable& n, const Variable&) { reshape(n, {1}); },
      [](const Variable& n, const Variable&) { view(n, {1}); },
      [](const Variable& n, const Variable&) { transpose(n, 0, 0); },
      [](const Variable& n, const Variable&) { permute(n, {0}); },
      [](const Variable& n, const Variable&) { expand(n, {1}); },
      [](const Variable& n, const Variable&) { slice(n, 0, 0, 1); },
      [](const Variable& n, const Variable&) { narrow(n, 0, 0, 1); },
      [](const Variable& n, const Variable&) { select(n, 0, 0); },
      [](const Variable& n, const Variable&) { unsqueeze(n, 0); },
      [](const Variable& n, const Variable&) { squeeze(n, 0); },
      [&](const Variable& n, const Variable& x) { where(mask, n, x); },
      [&](const Variable& n, const Variable& x) { where(mask, x, n); },
      [&](const Variable& n, const Variable&) { masked_fill(n, mask, Scalar(0.0)); },
      [](const Variable& n, const Variable&) { clamp(n, Scalar(0.0), Scalar(1.0)); },
      [](const Variable& n, const Variable& x) { lerp(n, x, 0.5); },
      [](const Variable& n, const Variable& x) { lerp(x, n, 0.5); },
      [](const Variable& n, const Variable& x) { addcmul(n, x, x); },
      [](const Variable& n, const Variable& x) { addcmul(x, n, x); },
      [](const Variable& n, const Variable& x) { addcmul(x, x, n); },
      [](const Variable& n, const Variable& x) { addcdiv(n, x, x); },
      [](const Variable& n, const Variable& x) { addcdiv(x, n, x); },
      [](const Variable& n, const Variable& x) { addcdiv(x, x, n); },
  };
  const Variable x = Variable::leaf(Tensor::from({1.0, 2.0})), h = x * 1.0;
  for (size_t i = 0; i < calls.size(); ++i) {
    CAPTURE(i);
    CHECK_THROWS_WITH_AS(calls[i](Variable(), h), doctest::Contains("undefined Variable"), ValueError);
  }
}
