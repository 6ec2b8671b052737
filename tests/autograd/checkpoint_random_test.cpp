// The rerun of a checkpointed segment draws the random numbers of its first run.

#include <doctest/doctest.h>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/layers/dropout.h"
#include "autograd/functions/reduction.h"
#include "autograd/recompute/checkpoint.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/random/random_context.h"

using namespace tessera;

namespace {

using Values = std::vector<double>;
using Function = std::function<Variable(const Variable&)>;

Values values(const Variable& x) {
  const Tensor y = x.value().contiguous();
  return {y.data<double>(), y.data<double>() + y.numel()};
}

struct Seen {
  std::vector<Values> draws;  // of each run
  Values gradient;
  double next = 0;  // what the generator gives afterwards
};

/// y = f(x) of a segment; its gradient needs what f drew. `between` runs between forward and backward.
template <class Draw>
Seen run(const Draw& draw, bool checkpointed, int backwards = 1) {
  Seen seen;
  begin_random_step(3, 0, {});
  manual_seed(11);
  (void)randn({3});  // the segment does not begin at the generator's start
  const Variable x = Variable::leaf(Tensor::from({0.5, -1.0, 2.0, 0.25}));
  const auto segment = [&seen, &draw](const Variable& a) {
    const Variable noise = draw(a);
    seen.draws.push_back(values(noise));
    return exp(a * noise) * noise;
  };
  const Variable y = checkpointed ? checkpoint(segment, x) : segment(x);
  seen.next = rand({1}, f64).item();
  (void)next_random_key("layer");
  for (int i = 0; i < backwards; ++i) sum(y).backward({.retain_graph = i + 1 < backwards});
  seen.gradient = values(x.grad());
  CHECK(rand({1}, f64).item() != seen.next);  // the rerun leaves the generator where it was
  return seen;
}

template <class Draw>
void check(const Draw& draw) {
  const Seen direct = run(draw, false), again = run(draw, true), twice = run(draw, true, 2);
  REQUIRE(direct.draws.size() == 1);
  REQUIRE(again.draws.size() == 2);
  CHECK(again.draws[0] == direct.draws[0]);
  CHECK(again.draws[1] == direct.draws[0]);
  CHECK(again.gradient == direct.gradient);
  CHECK(again.next == direct.next);
  REQUIRE(twice.draws.size() == 3);
  CHECK(twice.draws[2] == direct.draws[0]);
}

}  // namespace

TEST_CASE("checkpoint: the rerun repeats the draws of the thread's generator") {
  check([](const Variable&) { return Variable(randn({4}, f64)); });
  check([](const Variable&) { return Variable(rand({4}, f64)); });
  check([](const Variable& a) { return Variable(rand_like(a.value())) + Variable(randn_like(a.value())); });
  check([](const Variable& a) {
    const Tensor noise = Tensor::zeros_like(a.value());
    normal_(noise, 1.0, 0.5);
    return Variable(noise);
  });
  check([](const Variable& a) {
    // As nn::Dropout: the key is drawn by the name of the module, and counted.
    return dropout(a, 0.5, next_random_key("layer")) + dropout(a, 0.5, next_random_key("layer"));
  });
  check([](const Variable& a) { return a * Variable(bernoulli(Tensor::from({0.5, 0.5, 0.5, 0.5}))); });
}

TEST_CASE("checkpoint: the rerun repeats the draws of a context of the program's own") {
  // Inside the segment: the scope begins again in the rerun.
  check([](const Variable&) {
    RandomContextScope own({.generator_seed = 99, .generator_calls = 3});
    return Variable(randn({4}, f64));
  });
  // Around the segment: its rerun, outside of that scope, draws from a copy.
  const auto outside = [](bool checkpointed) {
    const Variable x = Variable::leaf(Tensor::from({0.5, -1.0}));
    Variable y;
    {
      RandomContextScope own({.generator_seed = 99});
      const auto segment = [](const Variable& a) { return exp(a * Variable(randn({2}, f64))); };
      y = checkpointed ? checkpoint(segment, x) : segment(x);
    }
    manual_seed(1);
    sum(y).backward();
    return values(x.grad());
  };
  CHECK(outside(true) == outside(false));
}
