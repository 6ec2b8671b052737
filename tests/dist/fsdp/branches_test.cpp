// Modules with two results of which a loss uses one or both: parameters that no loss reaches have no
// gradient, as on one device, over micro-batches, under every strategy.

#include <array>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/rules/adam.h"
#include "tests/dist/fsdp/against_one_device.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

constexpr int64_t C = 5;

struct Trunk : nn::Layer<Trunk> {
  nn::Linear& fc = add<nn::Linear>("fc", {.in = C, .out = C, .weight_init = init::normal(0.5)});
  Variable forward(const Variable& x) { return fc(x); }
};

/// Two results that share only a leaf.
struct Fork : nn::Layer<Fork> {
  nn::Linear& left = add<nn::Linear>("left", {.in = C, .out = C, .weight_init = init::normal(0.5)});
  nn::Linear& right = add<nn::Linear>("right", {.in = C, .out = C, .weight_init = init::normal(0.5)});
  Variable& gain = parameter("gain", {C}, init::normal(0.3, 1));
  std::pair<Variable, Variable> forward(const Variable& x) { return {left(x * gain), right(x * gain)}; }
};

struct Forked : nn::Layer<Forked> {
  Trunk& trunk = add<Trunk>("trunk");
  Fork& fork = add<Fork>("fork");
  std::pair<Variable, Variable> forward(const Variable& x, bool skips_trunk) {
    return fork(skips_trunk ? x : trunk(x));
  }
};

Variable input(int64_t sample) {
  const Tensor x = Tensor::empty({2, C}, f32);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = static_cast<float>((sample * 7 + i * 5) % 11) / 5 - 1;
  return x;
}

/// The backwards of one micro-batch on the two results.
enum class Use { left, right, both, left_on_rank_0, retain, in_turn, in_turn_without_trunk };

void run(Forked& model, Use use, int64_t sample, int rank, float factor) {
  const bool skips_trunk = use == Use::in_turn_without_trunk;
  const auto [left, right] = model(input(sample), skips_trunk);
  const Variable a = sum(left * left) * factor, b = sum(right * right) * factor;
  switch (use) {
    case Use::left:
      return a.backward();
    case Use::right:
      return b.backward();
    case Use::both:
      return (a + b).backward();
    case Use::left_on_rank_0:
      return (rank == 0 ? a : a + b).backward();
    case Use::retain:
      a.backward({.retain_graph = true});
      return (a + b).backward();
    case Use::in_turn:
      a.backward({.retain_graph = true});
      return b.backward();
    case Use::in_turn_without_trunk:
      a.backward();
      return b.backward();
  }
}

enum class Accumulate { no_sync, communicate };

struct Script {
  std::string name;
  std::vector<std::vector<Use>> steps;  // of micro-batches
  Accumulate accumulate = Accumulate::no_sync;
};

constexpr Use left = Use::left, right = Use::right, both = Use::both, retain = Use::retain,
              in_turn = Use::in_turn;

const std::vector<Script> scripts{
    {"one of two after both", {{both}, {left}, {left}, {both}}},
    {"the other of two", {{both}, {left}, {right}, {right}}},
    {"one, then both, no_sync", {{left, both}, {left, both}, {left, left}}},
    {"both, then one, no_sync", {{both, left}, {right, left}, {left, both, left}}},
    {"one, then the other, communicated",
     {{left, right}, {left, left}, {right, both}},
     Accumulate::communicate},
    {"retained graphs", {{retain}, {left, retain}, {retain, left}}},
    {"retained graphs, communicated", {{retain, left}, {left, retain}}, Accumulate::communicate},
    {"two losses in turn", {{in_turn}, {left, in_turn}, {in_turn, right}}},
    {"two losses that share only leaves", {{Use::in_turn_without_trunk}, {left, Use::in_turn_without_trunk}}},
};

template <class Step>
std::vector<test::Shard> train(Forked& model, const Script& script, const Step& run_micro_batch) {
  optim::AdamW adam(model.parameters(), {.lr = 0.05, .eps = 1e-2, .weight_decay = 0.1});
  std::vector<test::Shard> last;
  for (size_t s = 0; s < script.steps.size(); ++s) {
    for (size_t i = 0; i < script.steps[s].size(); ++i)
      run_micro_batch(script.steps[s][i], static_cast<int64_t>(4 * (s * 3 + i)),
                      i + 1 < script.steps[s].size());
    last = test::shards_of(model);
    adam.step();
    adam.zero_grad();
  }
  for (const test::Shard& shard : test::shards_of(model)) last.push_back(shard);
  return last;
}

std::vector<test::Shard> train_on_one_device(const Script& script, int ranks) {
  Forked model;
  nn::materialize(model, cpu(), 3);
  return train(model, script, [&](Use use, int64_t sample, bool) {
    for (int rank = 0; rank < ranks; ++rank)
      run(model, use, sample + rank, rank, 1.0f / static_cast<float>(ranks));
  });
}

std::vector<test::Shard> train_sharded(World& world, const test::Setting& setting, const UnitPolicy& units,
                                       const Script& script) {
  Forked model;
  Sharding& sharding = dist::shard(
      model, {.mesh = test::mesh_for(world, setting), .strategy = setting.strategy, .units = units});
  nn::materialize(model, cpu(), 3);
  return train(model, script, [&](Use use, int64_t sample, bool is_followed) {
    std::optional<Accumulation> more;
    if (is_followed) more.emplace(sharding, script.accumulate == Accumulate::communicate);
    run(model, use, sample + world.rank(), world.rank(), 1);
  });
}

void check(int ranks, const UnitPolicy& units, const std::vector<Script>& all) {
  test::require_no_problems(ranks, [&](World& world) {
    std::vector<std::string> problems;
    for (const Script& script : all)
      for (const std::string& problem : test::compare_all(
               world, [&](const test::Setting& s) { return train_sharded(world, s, units, script); },
               [&] { return train_on_one_device(script, world.size()); }))
        problems.push_back(text(script.name, ": ", problem));
    return problems;
  });
}

const UnitPolicy forks =
    units_where([](const nn::Module& m) { return m.name() == "trunk" || m.name() == "fork"; });

}  // namespace

TEST_CASE(
    "branches: a unit with two results, one or both used, over micro-batches, trains as on one device") {
  for (const int ranks : {2, 4}) check(ranks, forks, scripts);
}

TEST_CASE("branches: each result is of a unit of its own, or both are of the root") {
  check(2, every<nn::Linear>(), scripts);
  check(2, {}, scripts);
}

TEST_CASE("branches: a result that only some ranks use has a gradient on all") {
  const std::vector<Script> by_rank{{"by rank", {{Use::left_on_rank_0}, {left}, {Use::left_on_rank_0}}},
                                    {"by rank, then one", {{Use::left_on_rank_0, left}, {left}}},
                                    {"one, then by rank", {{left, Use::left_on_rank_0}, {left}}}};
  for (const int ranks : {2, 4}) check(ranks, forks, by_rank);
}

TEST_CASE(
    "branches: backward reaches one of two calls of a unit, on some ranks only partly, with parameters kept "
    "from forward") {
  struct Twice : nn::Layer<Twice> {
    Fork& fork = add<Fork>("fork");
    Trunk& trunk = add<Trunk>("trunk");
    std::array<Variable, 3> forward(const Variable& x) {
      const auto [left, right] = fork(x);
      return {left, right, fork(trunk(right)).second};
    }
  };
  test::require_no_problems(2, [](World& world) {
    std::vector<std::string> problems;
    std::vector<test::Shard> no_shard;
    for (const Strategy strategy : {Strategy::no_shard, Strategy::shard_optim, Strategy::shard_grad_op})
      for (const BackwardPrefetch prefetch :
           {BackwardPrefetch::pre, BackwardPrefetch::post, BackwardPrefetch::none}) {
        Twice model;
        dist::shard(model, {.mesh = Mesh(world),
                            .strategy = strategy,
                            .units = forks,
                            .backward_prefetch = prefetch,
                            .gathers_in_flight = 3});
        nn::materialize(model, cpu(), 3);
        const auto [left, right, later] = model(input(world.rank()));
        sum(left * (world.rank() == 0 ? left : right)).backward();
        const std::vector<test::Shard> found = test::shards_of(model);
        if (no_shard.empty()) no_shard = found;
        for (const std::string& problem : test::differences(found, no_shard, 0))
          problems.push_back(text(strategy, ", prefetch ", static_cast<int>(prefetch), ": ", problem));
      }
    return problems;
  });
}
