// The bytes that each strategy sends in a step, from the ledger, against the table of dist/fsdp/README.md:
// exact, with micro-batches and replicas. The formulas are written again here, from shapes only.

#include "dist/fsdp/estimate.h"
#include "models/gpt.h"
#include "nn/materialize.h"
#include "optim/clip.h"
#include "optim/rules/adam.h"
#include "tests/dist/fsdp/on_threads.h"

using namespace tessera;
using dist::Strategy;

namespace {

constexpr models::GptOptions gpt_options{
    .vocabulary = 11, .block_size = 4, .layers = 3, .heads = 2, .width = 8, .bias = true};

struct Case {
  Strategy strategy = Strategy::full_shard;
  int replicas = 1, shards = 2;
  int64_t micro_batches = 1;
  bool communicates = false;  ///< after each micro-batch
  DType compute = f32;
  dist::MessageOptions messages = {};
};

std::string name_of(const Case& c) {
  return text(c.strategy, ", ", c.replicas, "x", c.shards, ", ", c.micro_batches, " micro-batches",
              c.communicates ? " with communication, " : ", ", c.compute,
              c.messages.reduce_scatter ? "" : ", by all_reduce",
              c.messages.all_gather ? "" : ", by broadcasts");
}

/// Elements of a unit, each parameter and each shard padded to 16.
int64_t padded(std::span<const int64_t> sizes, int64_t shards) {
  int64_t total = 0;
  for (const int64_t size : sizes) total += (size + 15) / 16 * 16;
  const int64_t step = 16 * shards;
  return (total + step - 1) / step * step;
}

/// Bytes that a rank sends in a step.
struct Sent {
  int64_t parameters = 0, gradients = 0;
};

Sent expected_bytes(const Case& c) {
  // A block: two norms, queries, keys and values and their projection, two layers of the MLP. The root: the
  // embeddings of tokens and positions, and the last norm.
  constexpr int64_t C = gpt_options.width;
  const std::vector<int64_t> block{C, C, 3 * C * C, C * C, C, C, C, 4 * C * C, 4 * C, 4 * C * C, C};
  const std::vector<int64_t> root{gpt_options.vocabulary * C, gpt_options.block_size * C, C, C};
  const int64_t n = c.shards, m = c.replicas, A = c.micro_batches;
  const int64_t elements = gpt_options.layers * padded(block, n) + padded(root, n);
  const int64_t bytes = c.compute == f32 ? 4 : 2;
  const int64_t G = elements * bytes, G0 = padded(root, n) * bytes, R = elements * 4;
  const int64_t reductions = c.communicates ? A : 1;
  const auto sent = [n](int64_t total) { return total / n * (n - 1); };
  // In a broadcast from each rank a rank sends its shard; in an all_reduce all but its own shard, twice.
  const auto gathered = [&](int64_t total) { return c.messages.all_gather ? sent(total) : total / n; };
  const auto reduced = [&](int64_t total) { return (c.messages.reduce_scatter ? 1 : 2) * sent(total); };
  const int64_t across = 2 * (R / n) / m * (m - 1);
  switch (c.strategy) {
    case Strategy::no_shard:
      return {0, reductions * 2 * sent(R)};
    case Strategy::shard_optim:
    case Strategy::shard_grad_op:
      return {gathered(G), reductions * reduced(R)};
    case Strategy::full_shard:
      return {A * gathered(2 * G - G0), reductions * reduced(R)};
    case Strategy::hybrid_shard:
      return {A * gathered(2 * G - G0), reductions * (reduced(R) + across)};
    case Strategy::hybrid_shard_zero2:
      return {gathered(G), reductions * (reduced(R) + across)};
  }
  return {};
}

/// Compares the ledger of two steps after a first one with the table.
std::vector<std::string> check_traffic(dist::World& world, const Case& c) {
  const dist::Mesh mesh(world, {{"replica", c.replicas}, {"shard", c.shards}});
  models::Gpt gpt(gpt_options);
  dist::ShardOptions options{
      .mesh = mesh, .strategy = c.strategy, .units = dist::every<models::Block>(), .messages = c.messages};
  if (c.compute != f32) options.precision.compute = c.compute;
  dist::Sharding& sharding = dist::shard(gpt, options);
  nn::materialize(gpt, cpu(), 1);
  optim::AdamW adam(gpt.parameters());
  const Tensor ids = Tensor::from<int64_t>({1, 4, 9, 0, 10, 3, 3, 7}, {2, 4});
  const auto step = [&] {
    for (int64_t i = 0; i < c.micro_batches; ++i) {
      std::optional<dist::Accumulation> scope;
      if (i + 1 < c.micro_batches) scope.emplace(sharding, c.communicates);
      gpt.loss(ids, ids).backward();
    }
    optim::clip_grad_norm(gpt.parameters(), 1.0);
    adam.step();
    adam.zero_grad();
  };
  step();
  dist::Ledger& ledger = world.communicator().ledger();
  ledger.reset();
  step();
  step();
  const Sent expected = expected_bytes(c);
  const Sent found{ledger.total(dist::Traffic::parameters).bytes,
                   ledger.total(dist::Traffic::gradients).bytes};
  std::vector<std::string> problems;
  if (found.parameters != 2 * expected.parameters)
    problems.push_back(text(name_of(c), ": ", found.parameters,
                            " bytes of parameters in two steps, the table has ", 2 * expected.parameters));
  if (found.gradients != 2 * expected.gradients)
    problems.push_back(text(name_of(c), ": ", found.gradients,
                            " bytes of gradients in two steps, the table has ", 2 * expected.gradients));
  const dist::Estimate estimate = dist::estimate(gpt, options.units,
                                                 {.strategy = c.strategy,
                                                  .shards = c.shards,
                                                  .replicas = c.replicas,
                                                  .compute = c.compute,
                                                  .messages = c.messages,
                                                  .micro_batches = c.micro_batches,
                                                  .accumulate_communication = c.communicates});
  if (estimate.traffic.parameters != expected.parameters || estimate.traffic.gradients != expected.gradients)
    problems.push_back(text(name_of(c), ": the estimate is ", estimate.traffic.parameters, " and ",
                            estimate.traffic.gradients, ", the table has ", expected.parameters, " and ",
                            expected.gradients));
  return problems;
}

/// Every number of micro-batches, with and without communication, in f32 and bf16.
std::vector<std::string> check_all(dist::World& world, Strategy strategy, int replicas, int shards) {
  std::vector<std::string> problems;
  for (const DType compute : {f32, bf16})
    for (const int64_t micro_batches : {1, 3})
      for (const bool communicates : {false, true}) {
        if (micro_batches == 1 && communicates) continue;
        for (const std::string& problem :
             check_traffic(world, {strategy, replicas, shards, micro_batches, communicates, compute}))
          problems.push_back(problem);
      }
  return problems;
}

}  // namespace

TEST_CASE("traffic: flat strategies send exactly the bytes of the table") {
  for (const int ranks : {2, 3, 4})
    test::require_no_problems(ranks, [](dist::World& world) {
      std::vector<std::string> problems;
      for (const Strategy strategy : dist::flat_strategies)
        for (const std::string& problem : check_all(world, strategy, 1, world.size()))
          problems.push_back(problem);
      return problems;
    });
}

TEST_CASE("traffic: hybrid strategies on 2 x 2 and 2 x 4 send exactly the bytes of the table") {
  for (const int shards : {2, 4})
    test::require_no_problems(2 * shards, [shards](dist::World& world) {
      std::vector<std::string> problems;
      for (const Strategy strategy : {Strategy::hybrid_shard, Strategy::hybrid_shard_zero2})
        for (const std::string& problem : check_all(world, strategy, 2, shards)) problems.push_back(problem);
      return problems;
    });
}

TEST_CASE(
    "traffic: gradients by all_reduce and parameters by broadcasts send exactly the bytes of the table") {
  const std::vector<dist::MessageOptions> choices{{.reduce_scatter = false},
                                                  {.all_gather = false},
                                                  {.gather_elements = 100, .reduce_elements = 77},
                                                  {.gather_elements = 100,
                                                   .reduce_elements = 77,
                                                   .reduce_scatter = false,
                                                   .all_gather = false,
                                                   .overlap = false}};
  for (const int ranks : {2, 4})
    test::require_no_problems(ranks, [&](dist::World& world) {
      std::vector<std::string> problems;
      for (const Strategy strategy : dist::strategies)
        for (const dist::MessageOptions& messages : choices)
          for (const DType compute : {f32, bf16}) {
            const int replicas = dist::traits_of(strategy).replicates ? 2 : 1;
            if (world.size() == 2 && replicas == 2) continue;
            for (const std::string& problem : check_traffic(world, {.strategy = strategy,
                                                                   .replicas = replicas,
                                                                   .shards = world.size() / replicas,
                                                                   .micro_batches = 3,
                                                                   .compute = compute,
                                                                   .messages = messages}))
              problems.push_back(problem);
          }
      return problems;
    });
}

TEST_CASE("traffic: one rank sends nothing") {
  test::require_no_problems(1, [](dist::World& world) {
    std::vector<std::string> problems;
    for (const Strategy strategy : dist::strategies) check_traffic(world, {strategy, 1, 1});
    if (world.communicator().ledger().total().bytes != 0) problems.push_back("bytes were sent");
    return problems;
  });
}
