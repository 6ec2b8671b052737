#include <doctest/doctest.h>

#include <cstring>

#include "dist/fsdp/engine.h"
#include "dist/fsdp/shard.h"
#include "models/gpt.h"
#include "nn/checkpoint_modules.h"
#include "nn/materialize.h"
#include "optim/clip.h"
#include "optim/grad_scaler.h"
#include "optim/rules/adam.h"
#include "tests/dist/fsdp/rank_threads.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

constexpr int64_t batch = 12, time_steps = 8;
const models::GptOptions small{
    .vocabulary = 11, .block_size = time_steps, .layers = 3, .heads = 2, .width = 16, .bias = true};

Tensor tokens(int64_t first, int64_t count, int64_t shift) {
  Tensor ids = Tensor::empty({count, time_steps}, i64);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t t = 0; t < time_steps; ++t)
      ids.data<int64_t>()[i * time_steps + t] = ((first + i) * 7 + (t + shift) * (t + shift) * 3) % 11;
  return ids;
}

struct Outcome {
  std::vector<double> losses, norms;
  nn::StateDict parameters;
};

/// Steps of AdamW with clipping on this rank's samples of the batch.
Outcome train(models::Gpt& gpt, int rank, int world, Communicator* all_ranks, int steps) {
  optim::AdamW adam(gpt.parameters(), {.lr = 1e-2, .weight_decay = 0.1});
  Outcome outcome;
  const int64_t share = batch / world;
  for (int step = 0; step < steps; ++step) {
    const Variable loss =
        gpt.loss(tokens(rank * share + step, share, 0), tokens(rank * share + step, share, 1));
    loss.backward();
    const Tensor mean = Tensor::scalar(loss.item());
    if (all_ranks) all_ranks->all_reduce(mean, Reduction::avg).wait();
    outcome.losses.push_back(mean.item());
    outcome.norms.push_back(optim::clip_grad_norm(gpt.parameters(), 0.5).item());
    adam.step();
    adam.zero_grad();
  }
  return outcome;
}

nn::StateDict copy_of(const nn::StateDict& state) {
  nn::StateDict copy;
  for (const NamedTensor& entry : state) copy.push_back({entry.name, entry.tensor.clone()});
  return copy;
}

Outcome train_sharded(World& world, ShardOptions options, int steps, const models::GptOptions& model = small,
                      const nn::ActivationCheckpointing& checkpointing = {},
                      const std::string& checkpointed_modules = {}) {
  models::Gpt gpt(model);
  gpt.blocks.set_checkpointing(checkpointing);
  if (!checkpointed_modules.empty()) nn::checkpoint_matching(gpt, checkpointed_modules);
  Sharding& sharding = dist::shard(gpt, std::move(options));
  nn::materialize(gpt, cpu(), 5);
  Outcome outcome = train(gpt, world.rank(), world.size(), &world.communicator(), steps);
  const SummonFullParams full(sharding);
  outcome.parameters = copy_of(gpt.state_dict());
  return outcome;
}

Outcome train_on_one_device(int steps) {
  models::Gpt gpt(small);
  nn::materialize(gpt, cpu(), 5);
  Outcome outcome = train(gpt, 0, 1, nullptr, steps);
  outcome.parameters = copy_of(gpt.state_dict());
  return outcome;
}

bool same_bits(const nn::StateDict& a, const nn::StateDict& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].name != b[i].name || std::memcmp(a[i].tensor.raw_data(), b[i].tensor.raw_data(),
                                              static_cast<size_t>(a[i].tensor.nbytes())) != 0)
      return false;
  return a.size() == b.size();
}

double largest_difference(const nn::StateDict& a, const nn::StateDict& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i)
    for (int64_t k = 0; k < a[i].tensor.numel(); ++k)
      most = std::max(most, std::abs(static_cast<double>(a[i].tensor.data<float>()[k]) -
                                     static_cast<double>(b[i].tensor.data<float>()[k])));
  return most;
}

}  // namespace

TEST_CASE("sharding: every strategy trains as one process does, with the bits of no_shard") {
  const Outcome single = train_on_one_device(4);
  for (const int ranks : {1, 2, 3}) {
    Outcome reference;
    for (const Strategy strategy : dist::flat_strategies) {
      CAPTURE(ranks);
      CAPTURE(name_of(strategy));
      const std::vector<Outcome> outcomes = on_ranks<Outcome>(ranks, [&](World& world) {
        Mesh mesh(world);
        return train_sharded(world, {.mesh = mesh, .strategy = strategy, .units = every<models::Block>()}, 4);
      });
      for (const Outcome& outcome : outcomes) {
        CHECK(same_bits(outcome.parameters, outcomes[0].parameters));
        CHECK(outcome.norms == outcomes[0].norms);
      }
      if (strategy == Strategy::no_shard) reference = outcomes[0];
      CHECK(same_bits(outcomes[0].parameters, reference.parameters));
      CHECK(outcomes[0].losses == reference.losses);
      CHECK(outcomes[0].norms == reference.norms);
      CHECK(largest_difference(outcomes[0].parameters, single.parameters) < 2e-4);
      for (size_t i = 0; i < single.losses.size(); ++i) {
        CHECK(outcomes[0].losses[i] == doctest::Approx(single.losses[i]).epsilon(1e-5));
        CHECK(outcomes[0].norms[i] == doctest::Approx(single.norms[i]).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("sharding: hybrid strategies have the bits of no_shard on the same mesh") {
  Outcome reference;
  for (const Strategy strategy : {Strategy::no_shard, Strategy::hybrid_shard, Strategy::hybrid_shard_zero2}) {
    CAPTURE(name_of(strategy));
    const std::vector<Outcome> outcomes = on_ranks<Outcome>(4, [&](World& world) {
      Mesh mesh(world, {{"replica", 2}, {"shard", 2}});
      return train_sharded(world, {.mesh = mesh, .strategy = strategy, .units = every<models::Block>()}, 3);
    });
    if (strategy == Strategy::no_shard) reference = outcomes[0];
    for (const Outcome& outcome : outcomes) CHECK(same_bits(outcome.parameters, reference.parameters));
  }
}

TEST_CASE("sharding: activation checkpointing of one unit or across two changes no bit") {
  models::GptOptions model = small;
  model.dropout = 0.1;
  for (const Strategy strategy : {Strategy::no_shard, Strategy::shard_grad_op, Strategy::full_shard})
    for (const BackwardPrefetch prefetch :
         {BackwardPrefetch::pre, BackwardPrefetch::post, BackwardPrefetch::none}) {
      CAPTURE(name_of(strategy));
      const auto outcome = [&](const nn::ActivationCheckpointing& checkpointing,
                               const std::string& modules = {}) {
        return on_ranks<Outcome>(2, [&](World& world) {
          Mesh mesh(world);
          return train_sharded(world,
                               {.mesh = mesh,
                                .strategy = strategy,
                                .units = every<models::Block>(),
                                .backward_prefetch = prefetch,
                                .forward_prefetch = prefetch == BackwardPrefetch::post},
                               3, model, checkpointing, modules);
        })[0];
      };
      const Outcome plain = outcome({});
      for (const int64_t interval : {1, 2, 3}) {
        CAPTURE(interval);
        CHECK(same_bits(outcome({.interval = interval}).parameters, plain.parameters));
        CHECK(same_bits(outcome({.interval = interval, .keep = {"self_attention"}}).parameters,
                        plain.parameters));
      }
      // Units, modules within units, and one that has parameters of no operation that saves them.
      for (const char* modules :
           {"Block", "Mlp|CausalSelfAttention", "Embedding|LayerNorm", "Gpt|Block|Mlp"}) {
        CAPTURE(modules);
        CHECK(same_bits(outcome({}, modules).parameters, plain.parameters));
      }
    }
}

TEST_CASE(
    "sharding: f16 with a dynamic loss scale: all ranks skip the same steps and end with the same "
    "parameters") {
  Outcome reference;
  for (const Strategy strategy : {Strategy::no_shard, Strategy::shard_optim, Strategy::full_shard}) {
    CAPTURE(name_of(strategy));
    const std::vector<Outcome> outcomes = on_ranks<Outcome>(2, [&](World& world) {
      Mesh mesh(world);
      models::Gpt gpt(small);
      Sharding& sharding = dist::shard(gpt, {.mesh = mesh,
                                             .strategy = strategy,
                                             .units = every<models::Block>(),
                                             .precision = {.compute = f16, .reduce = f16}});
      nn::materialize(gpt, cpu(), 5);
      optim::AdamW adam(gpt.parameters(), {.lr = 1e-2});
      optim::GradScaler scaler({.initial_scale_power = 24, .hysteresis = 1});
      Outcome outcome;
      for (int step = 0; step < 16; ++step) {
        const Variable loss = gpt.loss(tokens(world.rank() * 6, 6, 0), tokens(world.rank() * 6, 6, 1));
        loss.backward(Variable(scaler.scale()));
        outcome.losses.push_back(scaler.scale().item());
        outcome.norms.push_back(scaler.step(adam) ? 1 : 0);
        adam.zero_grad();
      }
      const SummonFullParams full(sharding);
      outcome.parameters = copy_of(gpt.state_dict());
      return outcome;
    });
    if (strategy == Strategy::no_shard) reference = outcomes[0];
    for (const Outcome& outcome : outcomes) {
      CHECK(outcome.losses == reference.losses);
      CHECK(outcome.norms == reference.norms);
      CHECK(same_bits(outcome.parameters, reference.parameters));
    }
  }
  CHECK(reference.norms.front() == 0);  // 2^24 overflows
  CHECK(reference.norms.back() == 1);   // the scale is small enough
}
