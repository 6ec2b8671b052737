#include "dist/fsdp/estimate.h"

#include <doctest/doctest.h>

#include "models/presets.h"
#include "tensor/error.h"

namespace {

using namespace tessera;
using dist::Strategy;

// nano-cpu at 65 characters: the root holds 16,640 parameters, each of four blocks 196,864. Both are
// multiples of 16 x 4, so nothing is padded on four ranks.
constexpr int64_t P = 804'096, root = 16'640, block = 196'864;

dist::Estimate of(const dist::EstimateOptions& options) {
  models::Gpt gpt(models::nano_cpu(65));
  return dist::estimate(gpt, dist::every<models::Block>(), options);
}

}  // namespace

TEST_CASE("estimate: units by policy, the root first, with padding and this rank's shard") {
  const dist::Estimate e = of({.strategy = Strategy::full_shard, .shards = 4});
  REQUIRE(e.units.size() == 5);
  CHECK(e.units[0].name == "root");
  CHECK(e.units[0].parameters == root);
  CHECK(e.units[4].name == "blocks.3");
  CHECK(e.units[4].parameters == block);
  CHECK(e.units[4].padded == block);
  CHECK(e.units[4].held_trained == block / 4);
  // 16,640 = 7 x 2377.1: shards of 2384, the next multiple of 16, and the last one shorter by 48.
  const dist::Estimate uneven = of({.strategy = Strategy::full_shard, .shards = 7, .shard = 6});
  CHECK(uneven.units[0].padded == 7 * 2384);
  CHECK(uneven.units[0].held_trained == 2384 - 48);
}

TEST_CASE("estimate: model state in f32 is 16P, 8P + 8P/N and 16P/N") {
  const auto state = [](Strategy strategy, int shards, int replicas = 1) {
    return of({.strategy = strategy, .shards = shards, .replicas = replicas}).state;
  };
  for (const int n : {2, 4}) {
    CHECK(state(Strategy::no_shard, n).total() == 16 * P);
    CHECK(state(Strategy::shard_optim, n).total() == 8 * P + 8 * P / n);
    CHECK(state(Strategy::shard_grad_op, n).total() == 16 * P / n);
    CHECK(state(Strategy::full_shard, n).total() == 16 * P / n);
  }
  CHECK(state(Strategy::hybrid_shard, 2, 2).total() == 16 * P / 2);
  CHECK(state(Strategy::hybrid_shard_zero2, 2, 4).total() == 16 * P / 2);
  CHECK(state(Strategy::shard_optim, 4).parameter == 4 * P);
  CHECK(state(Strategy::shard_optim, 4).gradient == 4 * P);
  CHECK(state(Strategy::full_shard, 4).optimizer_state == 2 * P);
}

TEST_CASE("estimate: model state in mixed precision is 18P, 6P + 12P/N and 16P/N") {
  const auto state = [](Strategy strategy, int n) {
    return of({.strategy = strategy, .shards = n, .compute = bf16}).state;
  };
  for (const int n : {2, 4}) {
    CHECK(state(Strategy::no_shard, n).total() == 18 * P);
    CHECK(state(Strategy::shard_optim, n).total() == 6 * P + 12 * P / n);
    CHECK(state(Strategy::shard_grad_op, n).total() == 16 * P / n);
    CHECK(state(Strategy::full_shard, n).total() == 16 * P / n);
  }
}

TEST_CASE("estimate: a step gathers the model, or the root and one or two units") {
  using dist::BackwardPrefetch;
  CHECK(of({.strategy = Strategy::shard_grad_op, .shards = 4}).temporary.communication == 4 * P);
  CHECK(of({.strategy = Strategy::shard_grad_op, .shards = 4, .compute = bf16}).temporary.communication ==
        2 * P);
  CHECK(of({.strategy = Strategy::full_shard, .shards = 4}).temporary.communication ==
        4 * (root + 2 * block));
  CHECK(of({.strategy = Strategy::full_shard, .shards = 4, .backward_prefetch = BackwardPrefetch::none})
            .temporary.communication == 4 * (root + block));
  CHECK(of({.strategy = Strategy::full_shard, .shards = 4, .messages = {.prefetch_elements = 0}})
            .temporary.communication == 4 * (root + block));
  CHECK(of({.strategy = Strategy::full_shard, .shards = 4, .messages = {.overlap = false}})
            .temporary.communication == 4 * (root + block));
  CHECK(of({.strategy = Strategy::no_shard, .shards = 4}).temporary.total() == 0);
  CHECK(of({.strategy = Strategy::full_shard, .shards = 4, .micro_batches = 2}).temporary.gradient == 4 * P);
}

TEST_CASE("estimate: bytes sent in a step, by the table of strategies") {
  const int64_t G = 4 * P, G0 = 4 * root, R = 4 * P;
  const auto traffic = [](dist::EstimateOptions options) { return of(options).traffic; };
  const auto check = [&](dist::EstimateOptions options, int64_t parameters, int64_t gradients) {
    CAPTURE(name_of(options.strategy));
    CHECK(traffic(options).parameters == parameters);
    CHECK(traffic(options).gradients == gradients);
  };
  check({.strategy = Strategy::no_shard, .shards = 4}, 0, 2 * R * 3 / 4);
  check({.strategy = Strategy::shard_optim, .shards = 4}, G * 3 / 4, R * 3 / 4);
  check({.strategy = Strategy::shard_grad_op, .shards = 4}, G * 3 / 4, R * 3 / 4);
  check({.strategy = Strategy::full_shard, .shards = 4}, (2 * G - G0) * 3 / 4, R * 3 / 4);
  // Two groups of two: the same over 2, and the shard's all-reduce across groups.
  check({.strategy = Strategy::hybrid_shard, .shards = 2, .replicas = 2}, (2 * G - G0) / 2, R / 2 + R / 2);
  check({.strategy = Strategy::hybrid_shard_zero2, .shards = 2, .replicas = 4}, G / 2, R / 2 + 3 * R / 4);
  // Gathered in bf16, gradients in f32.
  check({.strategy = Strategy::full_shard, .shards = 2, .compute = bf16}, (G - G0 / 2) / 2, R / 2);
  // Three micro-batches: gathered for each, reduced once or for each.
  check({.strategy = Strategy::full_shard, .shards = 2, .micro_batches = 3}, 3 * (2 * G - G0) / 2, R / 2);
  check({.strategy = Strategy::shard_grad_op,
         .shards = 2,
         .micro_batches = 3,
         .accumulate_communication = true},
        G / 2, 3 * R / 2);
}

TEST_CASE("estimate: options out of range are errors") {
  CHECK_THROWS_AS(of({.shards = 0}), ConfigError);
  CHECK_THROWS_AS(of({.shards = 2, .shard = 2}), ConfigError);
  CHECK_THROWS_AS(of({.micro_batches = 0}), ConfigError);
}
