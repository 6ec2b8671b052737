// The bytes that each rank holds, from its memory account, against the formulas: between steps, and at the
// peaks of initialisation, forward, backward and the optimizer's step.

#include <array>
#include <cmath>

#include "dist/fsdp/shard.h"
#include "models/dnn.h"
#include "models/gpt.h"
#include "nn/materialize.h"
#include "optim/rules/adam.h"
#include "tensor/memory/account.h"
#include "tensor/ops/creation/creation.h"
#include "tests/dist/fsdp/on_threads.h"

using namespace tessera;
using dist::Strategy;

namespace {

constexpr models::GptOptions gpt_options{
    .vocabulary = 64, .block_size = 15, .layers = 5, .heads = 2, .width = 32, .tie_weights = false};
constexpr int64_t C = 32;
// Without biases: two norms, 4 C^2 of attention, 8 C^2 of the MLP; tokens, positions, the last norm, the
// head.
constexpr int64_t block = 2 * C + 12 * C * C, root = (64 + 15 + 1 + 64) * C, P = root + 5 * block;

/// Elements of padding in all units: shards are multiples of 16 elements.
int64_t padding(int ranks) {
  const auto left_over = [ranks](int64_t size) { return (16 * ranks - size % (16 * ranks)) % (16 * ranks); };
  return left_over(root) + 5 * left_over(block);
}

struct Settings {
  Strategy strategy = Strategy::full_shard;
  DType compute = f32;
  dist::BackwardPrefetch backward_prefetch = dist::BackwardPrefetch::pre;
  bool forward_prefetch = false;
  dist::MessageOptions messages = {};
};

/// A sharded GPT on one rank and a batch for it.
struct Rank {
  models::Gpt gpt{gpt_options};
  std::unique_ptr<optim::AdamW> adam;
  Tensor ids = Tensor::from<int64_t>({1, 4, 9, 0, 10, 63, 3, 7}, {2, 4});

  Rank(dist::World& world, const Settings& settings) {
    dist::ShardOptions options{.mesh = dist::Mesh(world),
                               .strategy = settings.strategy,
                               .units = dist::every<models::Block>(),
                               .backward_prefetch = settings.backward_prefetch,
                               .forward_prefetch = settings.forward_prefetch,
                               .messages = settings.messages};
    if (settings.compute != f32) options.precision.compute = settings.compute;
    dist::shard(gpt, options);
    nn::materialize(gpt, cpu(), 1);
    adam = std::make_unique<optim::AdamW>(gpt.parameters());
  }
  void step() {
    gpt.loss(ids, ids).backward();
    adam->step();
    adam->zero_grad();
  }
};

int64_t now(MemoryCategory category) {
  return current_account()->count(category).current;
}
int64_t peak(MemoryCategory category) {
  return current_account()->count(category).peak;
}
int64_t model_state() {
  return now(MemoryCategory::parameter) + now(MemoryCategory::gradient) +
         now(MemoryCategory::optimizer_state);
}

void expect(std::vector<std::string>& problems, const std::string& what, int64_t found, double expected,
            double slack) {
  if (std::abs(static_cast<double>(found) - expected) > slack)
    problems.push_back(text(what, ": ", found, " bytes, expected ", expected));
}

/// Bytes of model state per parameter: `full` on every rank, `sharded` over the ranks.
struct PerParameter {
  double full, sharded;
};
PerParameter formula(Strategy strategy, DType compute) {
  const bool is_mixed = compute != f32;
  if (strategy == Strategy::no_shard) return {is_mixed ? 18.0 : 16.0, 0};
  if (strategy == Strategy::shard_optim) return is_mixed ? PerParameter{6, 12} : PerParameter{8, 8};
  return {0, 16};
}

}  // namespace

TEST_CASE("memory: model state after backward is that of the formula for every strategy") {
  for (const int ranks : {2, 3, 4, 8})
    test::require_no_problems(ranks, [](dist::World& world) {
      std::vector<std::string> problems;
      for (const DType compute : {f32, bf16})
        for (const Strategy strategy : dist::flat_strategies) {
          Rank rank(world, {strategy, compute});
          rank.step();
          rank.gpt.loss(rank.ids, rank.ids).backward();
          const auto [full, sharded] = formula(strategy, compute);
          const double bytes = (full + sharded / world.size()) * P;
          expect(problems, text(strategy, " in ", compute), model_state(), bytes,
                 0.01 * bytes + 18.0 * padding(world.size()));
        }
      return problems;
    });
}

TEST_CASE("memory: the gradients of a unit lie in one buffer under every strategy") {
  test::require_no_problems(2, [](dist::World& world) {
    std::vector<std::string> problems;
    for (const Strategy strategy : dist::flat_strategies) {
      Rank rank(world, {strategy});
      rank.gpt.loss(rank.ids, rank.ids).backward();
      for (int i = 0; i < 5; ++i) {
        Tensor first;
        int64_t count = 0;
        for (const NamedParameter& parameter : rank.gpt.parameters()) {
          if (!parameter.name.starts_with(text("blocks.", i, ".")) || parameter.variable.numel() == 0)
            continue;
          const Tensor gradient = parameter.variable.grad().value();
          if (!first.defined()) first = gradient;
          if (!gradient.shares_storage(first))
            problems.push_back(text(strategy, ": ", parameter.name, " has a buffer of its own"));
          ++count;
        }
        if (count < 2) problems.push_back(text(strategy, ": ", count, " gradients of a block"));
      }
    }
    return problems;
  });
}

TEST_CASE("memory: hybrid strategies hold model state by the size of their shard group") {
  test::require_no_problems(4, [](dist::World& world) {
    std::vector<std::string> problems;
    for (const Strategy strategy : {Strategy::hybrid_shard, Strategy::hybrid_shard_zero2}) {
      models::Gpt gpt(gpt_options);
      dist::shard(gpt, {.mesh = dist::Mesh(world, {{"replica", 2}, {"shard", 2}}),
                        .strategy = strategy,
                        .units = dist::every<models::Block>()});
      nn::materialize(gpt, cpu(), 1);
      optim::AdamW adam(gpt.parameters());
      const Tensor ids = Tensor::from<int64_t>({1, 4, 9, 0}, {1, 4});
      gpt.loss(ids, ids).backward();
      adam.step();
      expect(problems, text(strategy), model_state(), 16.0 * P / 2, 0.01 * 16 * P / 2);
    }
    return problems;
  });
}

TEST_CASE("memory: a rank that fills its shards holds nothing else") {
  for (const int ranks : {2, 3, 4, 8})
    test::require_no_problems(ranks, [](dist::World& world) {
      std::vector<std::string> problems;
      current_account()->reset_peaks();
      const Rank rank(world, {});
      const double shards = 4.0 * static_cast<double>(P + padding(world.size())) / world.size();
      expect(problems, "the peak of initialisation", current_account()->total().peak, shards, 0.01 * shards);
      return problems;
    });
}

TEST_CASE("memory: forward gathers the root and one unit, two with prefetch") {
  for (const DType compute : {f32, bf16})
    for (const bool prefetch : {false, true})
      test::require_no_problems(4, [&](dist::World& world) {
        std::vector<std::string> problems;
        Rank rank(world, {.compute = compute, .forward_prefetch = prefetch});
        rank.step();
        rank.step();
        current_account()->reset_peaks();
        const Variable loss = rank.gpt.loss(rank.ids, rank.ids);
        const double bytes = static_cast<double>(size_of(compute)) * (root + (prefetch ? 2 : 1) * block);
        expect(problems, text("gathered in ", compute), peak(MemoryCategory::communication), bytes, 0);
        expect(problems, "kept after forward", now(MemoryCategory::communication),
               static_cast<double>(size_of(compute)) * root, 0);
        expect(problems, "parameters and optimizer state",
               now(MemoryCategory::parameter) + now(MemoryCategory::optimizer_state), 12.0 * P / 4,
               0.01 * 12 * P / 4);
        return problems;
      });
}

TEST_CASE("memory: backward gathers the root and one unit, two with prefetch, and holds their gradients") {
  for (const bool prefetch : {false, true})
    test::require_no_problems(4, [&](dist::World& world) {
      std::vector<std::string> problems;
      using enum dist::BackwardPrefetch;
      Rank rank(world, {.backward_prefetch = prefetch ? pre : none});
      rank.step();
      const Variable loss = rank.gpt.loss(rank.ids, rank.ids);
      current_account()->reset_peaks();
      loss.backward();
      const double gathered = 4.0 * (root + (prefetch ? 2 : 1) * block);
      expect(problems, "gathered", peak(MemoryCategory::communication), gathered, 0);
      // Of the root, of the unit that is computed, of the unit that is reduced, and of the shards.
      const int64_t maximum = 4 * (root + 2 * block) + 4 * P / 4;
      if (peak(MemoryCategory::gradient) > maximum)
        problems.push_back(
            text("gradients: ", peak(MemoryCategory::gradient), " bytes, expected at most ", maximum));
      expect(problems, "gathered after backward", now(MemoryCategory::communication), 0, 0);
      expect(problems, "gradients after backward", now(MemoryCategory::gradient), 4.0 * P / 4, 0);
      return problems;
    });
}

TEST_CASE("memory: messages of parts of units take no more than those of whole units") {
  for (const Strategy strategy : dist::flat_strategies)
    test::require_no_problems(3, [&](dist::World& world) {
      std::vector<std::string> problems;
      const auto peaks = [&](const dist::MessageOptions& messages) {
        Rank rank(world, {.strategy = strategy, .messages = messages});
        rank.step();
        current_account()->reset_peaks();
        rank.step();
        return std::array{peak(MemoryCategory::communication), peak(MemoryCategory::gradient)};
      };
      const auto parts = peaks({.gather_elements = 1000, .reduce_elements = 1000}), whole = peaks({});
      expect(problems, text("gathered under ", strategy), parts[0], static_cast<double>(whole[0]), 0);
      expect(problems, text("gradients under ", strategy), parts[1], static_cast<double>(whole[1]), 0);
      return problems;
    });
}

TEST_CASE("memory: the optimizer's step needs no memory besides the model state") {
  for (const Strategy strategy : {Strategy::no_shard, Strategy::shard_optim, Strategy::full_shard})
    test::require_no_problems(2, [&](dist::World& world) {
      std::vector<std::string> problems;
      Rank rank(world, {.strategy = strategy});
      rank.step();
      rank.gpt.loss(rank.ids, rank.ids).backward();
      const int64_t before = current_account()->total().current;
      current_account()->reset_peaks();
      rank.adam->step();
      expect(problems, text("the step of ", strategy), current_account()->total().peak - before, 0, 1024);
      return problems;
    });
}

namespace {

/// Three steps of a deep perceptron on ranks that may hold `limit` bytes each; this rank's last loss.
double train_within(dist::World& world, Strategy strategy, int64_t limit) {
  const intrusive_ptr<MemoryAccount> account = current_account();
  account->set_limit(limit);
  models::Dnn dnn({.layers = 24, .width = 64});
  dist::shard(dnn, {.mesh = dist::Mesh(world), .strategy = strategy, .units = dist::every<nn::Linear>()});
  nn::materialize(dnn, cpu(), 3);
  optim::AdamW adam(dnn.parameters());
  const Tensor x = ops::full({2, 64}, 1.0, f32), target = Tensor::zeros({2, 64}, f32);
  double last = 0;
  for (int step = 0; step < 3; ++step) {
    const Variable loss = dnn.loss(x, target);
    last = loss.item();
    loss.backward();
    adam.step();
    adam.zero_grad();
  }
  account->set_limit(0);
  return last;
}

}  // namespace

TEST_CASE("memory: full_shard trains a model with parameters larger than a rank's limit") {
  constexpr int64_t parameters = 24 * (64 * 64 + 64), limit = 4 * parameters * 7 / 8;
  test::require_no_problems(8, [](dist::World& world) {
    std::vector<std::string> problems;
    const double small = train_within(world, Strategy::full_shard, limit);
    const double large = train_within(world, Strategy::no_shard, 0);
    if (small != large) problems.push_back(text("loss ", small, ", without a limit ", large));
    return problems;
  });
  // Errors of strategies that need more: at initialisation; in a gather, with its bytes: 4160 elements of 4
  // bytes, padded to a multiple of 8 times 16.
  CHECK_THROWS_AS(dist::launch([](dist::World& world) { train_within(world, Strategy::no_shard, limit); },
                               {.virtual_ranks = 2}),
                  OutOfMemoryError);
  CHECK_THROWS_WITH_AS(
      dist::launch([](dist::World& world) { train_within(world, Strategy::shard_grad_op, limit); },
                   {.virtual_ranks = 8}),
      doctest::Contains("takes 16896 bytes"), OutOfMemoryError);
}
