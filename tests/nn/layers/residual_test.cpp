#include <doctest/doctest.h>

#include <cmath>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "nn/layers/attention.h"
#include "nn/layers/dropout.h"
#include "nn/layers/normalization.h"
#include "nn/materialize.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/random/random_context.h"

using namespace tessera;

namespace {

Variable waves(const Shape& shape, double phase) {
  const Tensor t = Tensor::empty(shape, f64);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<double>()[i] = std::sin(0.7 * static_cast<double>(i) + phase);
  return Variable::leaf(t);
}

void check_close(const Variable& a, const Variable& b) {
  REQUIRE(a.shape() == b.shape());
  const double *p = a.value().data<double>(), *q = b.value().data<double>();
  for (int64_t i = 0; i < a.numel(); ++i) CHECK(p[i] == doctest::Approx(q[i]).epsilon(1e-12));
}

}  // namespace

TEST_CASE(
    "residual: added in the pass of a norm or by add_dropout, with the mask and the gradients of separate "
    "operations") {
  nn::Dropout drop(0.3);
  nn::LayerNorm norm(8);
  norm.to(f64);
  nn::materialize(norm, cpu(), 3);
  const Variable x = waves({2, 5, 8}, 0), delta = waves({2, 5, 8}, 1), weights = waves({2, 5, 8}, 2);
  const std::vector<int64_t> samples{4, 9};
  const auto gradients = [&](const Variable& sum, const Variable& normal) {
    return grad(tessera::sum(weights * normal + sum * sum), {x, delta, norm.weight});
  };

  begin_random_step(1, 0, samples);
  const Variable separate = x + drop(delta);
  begin_random_step(1, 0, samples);
  const auto [sum, normal] = norm.add_dropout_and_norm(x, {delta, drop.mask()});
  begin_random_step(1, 0, samples);
  check_close(nn::add_dropout(x, {delta, drop.mask()}), separate);
  check_close(sum, separate);
  check_close(normal, norm(separate));
  const auto fused = gradients(sum, normal), expected = gradients(separate, norm(separate));
  for (size_t i = 0; i < fused.size(); ++i) check_close(fused[i], expected[i]);
}

TEST_CASE("residual: without an addend the stream is not copied, and both of its gradients are summed") {
  nn::RMSNorm norm(8);
  norm.to(f64);
  nn::materialize(norm, cpu(), 3);
  const Variable x = waves({3, 8}, 0);
  const auto [stream, normal] = norm.fork_and_norm(x);
  CHECK(stream.value().raw_data() == x.value().raw_data());
  const Variable fused = grad(sum(stream * normal), {x})[0], separate = grad(sum(x * norm(x)), {x})[0];
  check_close(fused, separate);
  // Only one of the two gradients.
  check_close(grad(sum(norm.fork_and_norm(x).sum * 2.0), {x})[0], Variable(ops::full({3, 8}, 2.0, f64)));
  // It shares x's bytes, so it may not be changed in place.
  CHECK_THROWS_WITH_AS(add_(stream, normal), doctest::Contains("is a view of another Variable"),
                       AutogradError);
}

TEST_CASE("residual: attention's dropout is applied in the addition, with the same mask") {
  nn::CausalSelfAttention layer({.width = 8, .heads = 2, .dropout = 0.4});
  layer.to(f64);
  nn::materialize(layer, cpu(), 5);
  const Variable x = waves({2, 6, 8}, 0), stream = waves({2, 6, 8}, 1);
  const std::vector<int64_t> samples{0, 1};
  begin_random_step(1, 0, samples);
  const Variable separate = stream + layer(x);
  begin_random_step(1, 0, samples);
  check_close(nn::add_dropout(stream, layer.forward_before_dropout(x)), separate);
}

TEST_CASE("residual: the stream's gradient overwrites the saved sum, and has the same values") {
  nn::LayerNorm norm(8);
  norm.to(f64);
  nn::materialize(norm, cpu(), 3);
  const Variable x = waves({2, 5, 8}, 0), delta = waves({2, 5, 8}, 1);
  const auto loss = [&] {
    const auto [sum, normal] = norm.add_dropout_and_norm(x * 1.0, {delta});
    return tessera::sum(normal * normal * normal) + tessera::sum(sum * sum);
  };
  const Variable total = loss();
  const auto expected = grad(total, {x, delta, norm.weight}, {.retain_graph = true});
  const auto overwritten = grad(total, {x, delta, norm.weight});
  for (size_t i = 0; i < expected.size(); ++i) check_close(overwritten[i], expected[i]);
}
