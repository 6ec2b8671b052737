#include <doctest/doctest.h>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "autograd/recompute/checkpoint.h"
#include "nn/layer.h"
#include "nn/layers/dropout.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/random/random_context.h"

using namespace tessera;

namespace {

/// Dropout, and a factor that depends on the training mode.
struct Block : nn::Layer<Block> {
  nn::Dropout& drop = add<nn::Dropout>("drop", nn::Dropout::Options{.probability = 0.5});
  Variable forward(const Variable& x) {
    const Variable y = drop(x * x);
    return is_training() ? y * y : y * y * y;
  }
};

/// Calls its dropout twice, the first time in evaluation.
struct Switching : nn::Layer<Switching> {
  nn::Dropout& drop = add<nn::Dropout>("drop", nn::Dropout::Options{.probability = 0.5});
  Variable forward(const Variable& x) {
    const bool was_training = drop.is_training();
    drop.eval();
    const Variable y = drop(x * x);
    drop.train(was_training);
    return drop(y * x);
  }
};

std::vector<double> gradient(Block& block, bool checkpointed, bool forward_mode, bool backward_mode) {
  const Variable x = Variable::leaf(ops::full({4, 8}, Scalar(1.5), f64));
  RandomContextScope same_random_numbers(RandomContext{});
  block.train(forward_mode);
  const auto run = [&](const Variable& in) { return block(in); };
  const auto nested = [&](const Variable& in) { return checkpoint(run, in) + checkpoint(run, in); };
  const Variable y = sum(checkpointed ? checkpoint(nested, x) : run(x) + run(x));
  block.train(backward_mode);
  y.backward();
  CHECK(block.is_training() == backward_mode);
  const double* values = x.grad().value().data<double>();
  return {values, values + x.numel()};
}

}  // namespace

TEST_CASE("checkpoint: a segment runs again in the mode of its forward") {
  Block block;
  for (const bool mode : {false, true}) {
    const auto expected = gradient(block, false, mode, mode);
    CHECK(gradient(block, true, mode, mode) == expected);
    CHECK(gradient(block, true, mode, !mode) == expected);
  }
  // A forward in the other mode gives another gradient.
  CHECK(gradient(block, true, true, false) != gradient(block, true, false, true));
}

TEST_CASE("checkpoint: a segment that changes the mode itself runs again with the same changes") {
  const auto gradient_of = [](bool checkpointed, bool backward_mode) {
    Switching block;
    const Variable x = Variable::leaf(ops::full({4, 8}, Scalar(1.5), f64));
    RandomContextScope same_random_numbers(RandomContext{});
    const auto run = [&](const Variable& in) { return block(in); };
    const auto nested = [&](const Variable& in) { return checkpoint(run, in) + checkpoint(run, in); };
    const Variable y = sum(checkpointed ? checkpoint(nested, x) : run(x) + run(x));
    block.train(backward_mode);
    y.backward({.retain_graph = true});
    y.backward();  // runs the segments again
    const double* values = x.grad().value().data<double>();
    return std::vector<double>(values, values + x.numel());
  };
  const auto expected = gradient_of(false, true);
  CHECK(gradient_of(true, true) == expected);
  CHECK(gradient_of(true, false) == expected);
}
