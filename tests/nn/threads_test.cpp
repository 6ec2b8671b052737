// One module called by several threads at once.
#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
#include <thread>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/layers/loss.h"
#include "nn/layers/activation.h"
#include "nn/layers/attention.h"
#include "nn/layers/containers.h"
#include "nn/layers/dropout.h"
#include "nn/materialize.h"
#include "tensor/ops/creation/random.h"
#include "tensor/random/random_context.h"
#include "tensor/threads/parallel.h"
#include "tests/tensor/test_values.h"

using namespace tessera;

namespace {

struct Net : nn::Layer<Net> {
  nn::CausalSelfAttention& attention =
      add<nn::CausalSelfAttention>("attention", {.width = 8, .heads = 2, .dropout = 0.3});
  nn::Sequential& mlp = add<nn::Sequential>("mlp");
  nn::Dropout& drop = add<nn::Dropout>("drop", 0.2);
  Net() {
    mlp.push<nn::Linear>({.in = 8, .out = 16});
    mlp.push<nn::GELU>();
    mlp.push<nn::Linear>({.in = 16, .out = 8});
  }
  Variable forward(const Variable& x) { return drop(x + mlp(attention(x))); }
};

Tensor input(int64_t which) {
  const Tensor x = Tensor::empty({3, 4, 8}, f32);
  ops::fill_normal(x, static_cast<uint64_t>(which), 0, 0, 1);
  return x;
}

/// The gradients of a loss of input `which`, in the order of the parameters.
std::vector<Variable> gradients(Net& net, int64_t which) {
  const RandomContextScope scope{RandomContext()};
  const std::vector<int64_t> samples{0, 1, 2};
  begin_random_step(5, which, samples);
  const Variable loss = mse_loss(net(Variable(input(which))), Tensor::zeros({3, 4, 8}, f32));
  std::vector<Variable> parameters;
  for (const NamedParameter& p : net.parameters()) parameters.push_back(p.variable);
  return grad({{loss}}, parameters);
}

}  // namespace

TEST_CASE("module: several threads call it at once, each with its own graph and random numbers") {
  Net net;
  nn::materialize(net, cpu(), 1);
  std::atomic<int> calls{0};
  HookHandle counter = net.mlp.register_forward_hook(
      [&](nn::Module&, const nn::CallVariables&, const nn::CallVariables&) { ++calls; });
  constexpr int threads = 4, rounds = 25;
  std::vector<std::vector<Variable>> expected;
  {
    Net reference;  // another module, so that the threads are the first to compute the names of `net`
    nn::materialize(reference, cpu(), 1);
    for (int round = 0; round < rounds; ++round) expected.push_back(gradients(reference, round));
  }
  std::barrier start(threads);
  std::atomic<int> wrong{0};
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t)
    workers.emplace_back([&, t] {
      set_num_threads(1);
      start.arrive_and_wait();
      for (int i = 0; i < rounds; ++i) {
        const int round = (i + 7 * t) % rounds;
        const std::vector<Variable> got = gradients(net, round);
        for (size_t p = 0; p < got.size(); ++p)
          if (!same_bits(got[p].value().contiguous(), expected[round][p].value().contiguous())) ++wrong;
      }
    });
  for (std::thread& worker : workers) worker.join();
  CHECK(wrong == 0);
  CHECK(calls == threads * rounds);
  counter.remove();
}
