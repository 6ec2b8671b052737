// Kept inputs in parts on ranks that compute the same (as those of tensor parallelism do).

#include "dist/fsdp/partitioned_store.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/recompute/checkpoint.h"
#include "autograd/recompute/stores.h"
#include "tests/dist/fsdp/rank_threads.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

constexpr int64_t rows = 5, width = 7, layers = 4;  // 35 elements: no group divides them

Tensor sines(const Shape& shape, double phase) {
  const Tensor t = Tensor::empty(shape, f64);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<double>()[i] = 0.3 * std::sin(0.7 * static_cast<double>(i) + phase);
  return t;
}

struct Result {
  int64_t held = 0, host = 0;  // bytes between forward and backward
  std::vector<double> gradients;
};

Result run(const SavingPolicy& policy, const HostStore* host, double phase = 0) {
  std::vector<Variable> weights;
  for (int64_t i = 0; i < layers; ++i)
    weights.push_back(Variable::parameter(sines({width, width}, static_cast<double>(i))));
  Result result;
  const auto account = make_intrusive<MemoryAccount>();
  {
    const AccountScope counted(account);
    const CheckpointInputsScope scope(policy);
    Variable x = sines({rows, width}, phase);
    for (const Variable& weight : weights)
      x = checkpoint([&weight](const Variable& y) { return y + matmul(y * y, weight); }, x);
    const Variable loss = sum(x * x);
    x = Variable();
    result.held = account->total().current;
    if (host) result.host = host->account().total().current;
    loss.backward();
  }
  for (const Variable& weight : weights) {
    const double* g = weight.grad().value().data<double>();
    result.gradients.insert(result.gradients.end(), g, g + width * width);
  }
  return result;
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

}  // namespace

TEST_CASE("partitioned inputs: each rank holds its part, and gradients have the same bits") {
  const Result alone = run(nullptr, nullptr);
  for (const int ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    const auto results = on_ranks<Result>(
        ranks, [](World& world) { return run(PartitionedStore(world.communicator()).policy(), nullptr); });
    const int64_t part = (rows * width + ranks - 1) / ranks;
    for (const Result& result : results) {
      CHECK(same_bits(result.gradients, alone.gradients));
      // The inputs of all layers are parts; the last result is whole.
      const int64_t saved = layers * (rows * width - part) * 8;
      // A communicator keeps its newest call, and its thread may keep the one before: a hash and those of
      // all.
      const int64_t calls = 2 * 8 * (1 + ranks);
      CHECK(alone.held - result.held <= saved);
      CHECK(alone.held - result.held >= saved - calls);
    }
  }
}

TEST_CASE("partitioned inputs: parts may be in the CPU's memory") {
  const Result alone = run(nullptr, nullptr);
  const auto results = on_ranks<Result>(2, [](World& world) {
    const HostStore host;
    return run(PartitionedStore(world.communicator(), host.policy()).policy(), &host);
  });
  for (const Result& result : results) {
    CHECK(same_bits(result.gradients, alone.gradients));
    CHECK(alone.held - result.held >= layers * rows * width * 8 - 64);
    CHECK(result.host == layers * (rows * width + 1) / 2 * 8);
  }
}

TEST_CASE("partitioned inputs: ranks with samples of their own are refused") {
  const auto messages = on_ranks<std::string>(2, [](World& world) -> std::string {
    try {
      run(PartitionedStore(world.communicator()).policy(), nullptr, world.rank());
    } catch (const ValueError& error) {
      return error.what();
    }
    return "";
  });
  for (const std::string& message : messages)
    CHECK(message.find("expected one value on all ranks of 'world'") != std::string::npos);
}
