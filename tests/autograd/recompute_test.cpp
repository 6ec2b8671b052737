#include "autograd/recompute/recompute.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "autograd/debug/graph_dot.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/layers/normalization.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/view.h"
#include "autograd/recompute/checkpoint.h"
#include "tensor/ops/elementwise/binary.h"

using namespace tessera;

namespace {

Variable sine_leaf(const Shape& shape, double phase) {
  const Tensor t = Tensor::empty(shape, f32);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<float>()[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i) + phase));
  return Variable::leaf(t);
}

bool same_bits(const Variable& a, const Variable& b) {
  return a.shape() == b.shape() && std::memcmp(a.value().raw_data(), b.value().raw_data(),
                                               static_cast<size_t>(a.value().nbytes())) == 0;
}

const Shape rows{4, 16};

struct Layer {
  Variable x = sine_leaf(rows, 0), gain = Variable::parameter(sine_leaf({16}, 1).value()),
           weight = Variable::parameter(sine_leaf({8, 16}, 2).value());
  std::vector<Variable> leaves() const { return {x, gain, weight}; }
};

}  // namespace

TEST_CASE(
    "recompute: a norm's result is not kept for the product after it, and the gradients have the same bits") {
  const Layer l;
  const Variable y = linear(layer_norm(l.x, l.gain), l.weight);
  CHECK(saved_bytes(y) == l.x.value().nbytes() + 2 * 4 * 4);  // x, and a mean and a deviation per row
  // A view has no recompute function: here the norm's result is kept.
  const Variable kept = linear(reshape(layer_norm(l.x, l.gain), {2, 2, 16}), l.weight);
  CHECK(saved_bytes(kept) == 2 * l.x.value().nbytes() + 2 * 4 * 4);
  const std::vector<Variable> expected = grad(std::vector{sum(kept * kept)}, l.leaves());
  for (int pass = 0; pass < 2; ++pass) {
    const auto found = grad(std::vector{sum(y * y)}, l.leaves(), {}, {.retain_graph = true});
    for (size_t i = 0; i < found.size(); ++i) CHECK(same_bits(found[i], expected[i]));
  }
}

TEST_CASE("recompute: a norm inside a checkpointed segment has the same gradients") {
  const Layer l;
  const auto segment = [&](const Variable& x) { return linear(layer_norm(x, l.gain), l.weight); };
  const Variable plain = segment(l.x), y = checkpoint(segment, l.x);
  const auto expected = grad(std::vector{sum(plain * plain)}, l.leaves()),
             found = grad(std::vector{sum(y * y)}, l.leaves());
  for (size_t i = 0; i < found.size(); ++i) CHECK(same_bits(found[i], expected[i]));
}

TEST_CASE("recompute: a result changed in place is saved as it is, and a changed input of it is an error") {
  const Layer l;
  const Variable y = layer_norm(l.x, l.gain);
  ops::add_(y.value(), Scalar(1.0));
  const Variable gradient = grad(sum(linear(y, l.weight)), {l.weight})[0];
  // Every row of the weight's gradient is the sum of the input's rows.
  CHECK(static_cast<double>(gradient.value().data<float>()[0]) ==
        doctest::Approx(sum(y, {0}).value().data<float>()[0]).epsilon(1e-5));

  const Variable input = l.x * 1.0, z = linear(layer_norm(input, l.gain), l.weight);
  ops::add_(input.value(), Scalar(1.0));
  CHECK_THROWS_WITH_AS(grad(sum(z), {l.weight}), doctest::Contains("changed in place"), AutogradError);
}
