#include <doctest/doctest.h>

#include <mutex>

#include "dist/fsdp/estimate.h"
#include "dist/launch/launch.h"
#include "models/gpt.h"
#include "nn/materialize.h"
#include "optim/rules/adam.h"
#include "tensor/memory/account.h"
#include "tensor/ops/creation/creation.h"

// The formulas of estimate.h against the bytes that ranks hold and send.

namespace {

using namespace tessera;
using dist::Strategy;

struct Case {
  Strategy strategy;
  int shards, replicas;
  int64_t micro_batches = 1;
  bool accumulate_communication = false;
  dist::BackwardPrefetch prefetch = dist::BackwardPrefetch::pre;
};

/// Bytes of a rank at the end of a step's backwards, at most during the step, and sent in it.
struct Measured {
  std::array<int64_t, memory_categories> now{}, peak{};
  int64_t parameters_sent = 0, gradients_sent = 0;
};

constexpr int64_t tokens = 8, sequences = 2;

models::GptOptions model() {
  return {.vocabulary = 64, .block_size = tokens, .layers = 3, .heads = 2, .width = 64};
}

Measured measure(dist::World& world, const Case& c, DType compute) {
  models::Gpt gpt(model());
  const bool is_hybrid = dist::traits_of(c.strategy).replicates;
  dist::Sharding& sharding =
      dist::shard(gpt, {.mesh = is_hybrid ? dist::Mesh(world, {{"replica", c.replicas}, {"shard", c.shards}})
                                          : dist::Mesh(world),
                        .strategy = c.strategy,
                        .units = dist::every<models::Block>(),
                        .precision = {.compute = compute},
                        .backward_prefetch = c.prefetch});
  nn::materialize(gpt, world.device(), 1);
  optim::AdamW adam(gpt.parameters(), {.lr = 1e-3});
  const Tensor ids = Tensor::zeros({sequences, tokens}, i64);
  MemoryAccount& account = *current_account();
  Measured result;
  for (int step = 0; step < 3; ++step) {
    const int64_t parameters = world.communicator().ledger().total(dist::Traffic::parameters).bytes;
    const int64_t gradients = world.communicator().ledger().total(dist::Traffic::gradients).bytes;
    account.reset_peaks();
    for (int64_t micro = 0; micro < c.micro_batches; ++micro) {
      std::optional<dist::Accumulation> accumulation;
      if (micro + 1 < c.micro_batches) accumulation.emplace(sharding, c.accumulate_communication);
      gpt.loss(ids, ids).backward();
    }
    for (int i = 0; i < memory_categories; ++i) {
      result.now[i] = account.count(static_cast<MemoryCategory>(i)).current;
      result.peak[i] = account.count(static_cast<MemoryCategory>(i)).peak;
    }
    adam.step();
    adam.zero_grad();
    result.parameters_sent =
        world.communicator().ledger().total(dist::Traffic::parameters).bytes - parameters;
    result.gradients_sent = world.communicator().ledger().total(dist::Traffic::gradients).bytes - gradients;
  }
  return result;
}

dist::Estimate predict(const Case& c, DType compute, int rank) {
  models::Gpt gpt(model());
  return dist::estimate(gpt, dist::every<models::Block>(),
                        {.strategy = c.strategy,
                         .shards = c.shards,
                         .replicas = c.replicas,
                         .shard = rank % c.shards,
                         .compute = compute,
                         .backward_prefetch = c.prefetch,
                         .micro_batches = c.micro_batches,
                         .accumulate_communication = c.accumulate_communication});
}

const std::vector<Case> cases = {{Strategy::no_shard, 2, 1},
                                 {Strategy::shard_optim, 2, 1},
                                 {Strategy::shard_grad_op, 2, 1},
                                 {Strategy::full_shard, 2, 1},
                                 {Strategy::full_shard, 4, 1},
                                 {Strategy::full_shard, 3, 1},
                                 {Strategy::hybrid_shard, 2, 2},
                                 {Strategy::hybrid_shard_zero2, 2, 2},
                                 {Strategy::full_shard, 2, 1, 3},
                                 {Strategy::full_shard, 2, 1, 3, true},
                                 {Strategy::shard_grad_op, 2, 1, 3},
                                 {Strategy::shard_grad_op, 2, 1, 3, true},
                                 {Strategy::shard_optim, 2, 1, 3},
                                 {Strategy::no_shard, 2, 1, 2, true},
                                 {Strategy::full_shard, 2, 1, 1, false, dist::BackwardPrefetch::none}};

/// Up to 1% and the rounding of blocks: the allocator's have 64 bytes, an optimizer has a few per parameter.
bool is_near(int64_t measured, int64_t predicted) {
  constexpr int64_t rounding = 3 * 32 * 64;
  return std::abs(measured - predicted) <= predicted / 100 + rounding;
}

/// The head's gradient of the tied embedding, before it is added to the embedding's own.
constexpr int64_t tied_gradient = 64 * 64 * 4;

}  // namespace

TEST_CASE("estimate: model state, temporary memory and traffic are those of real steps, on every rank") {
  for (const DType compute : {f32, bf16})
    for (const Case& c : cases) {
      std::mutex mutex;
      dist::launch(
          [&](dist::World& world) {
            const Measured m = measure(world, c, compute);
            const dist::Estimate e = predict(c, compute, world.rank());
            const std::lock_guard lock(mutex);  // doctest's checks are for one thread at a time
            CAPTURE(name_of(c.strategy));
            CAPTURE(world.size());
            CAPTURE(c.micro_batches);
            CAPTURE(c.accumulate_communication);
            CAPTURE(to_string(compute));
            const auto now = [&](MemoryCategory category) { return m.now[static_cast<size_t>(category)]; };
            const auto peak = [&](MemoryCategory category) { return m.peak[static_cast<size_t>(category)]; };
            CAPTURE(e.state.parameter);
            CAPTURE(e.state.gradient);
            CAPTURE(e.state.optimizer_state);
            CHECK(is_near(now(MemoryCategory::parameter), e.state.parameter));
            CHECK(is_near(now(MemoryCategory::gradient), e.state.gradient));
            CHECK(is_near(now(MemoryCategory::optimizer_state), e.state.optimizer_state));
            CHECK(m.parameters_sent == e.traffic.parameters);
            CHECK(m.gradients_sent == e.traffic.gradients);
            CHECK(peak(MemoryCategory::communication) == e.temporary.communication);
            CHECK(peak(MemoryCategory::gradient) <= e.state.gradient + e.temporary.gradient + tied_gradient);
            CHECK(peak(MemoryCategory::gradient) >= e.state.gradient + e.temporary.gradient);
          },
          {.virtual_ranks = c.shards * c.replicas, .timeout = std::chrono::milliseconds(20'000)});
    }
}
