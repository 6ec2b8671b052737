// The bytes that a step of sharded stages sends, from the ledger, against formulas of shapes: 2 stages on 2
// ranks each.

#include <cmath>

#include "autograd/functions/elementwise/binary.h"
#include "models/gpt.h"
#include "nn/materialize.h"
#include "optim/rules/sgd.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/dist/pipeline/run/pipeline_matrix.h"
#include "tests/dist/pipeline/run/step_comparison.h"

using namespace tessera;
using dist::ScheduleKind;
using dist::Strategy;

namespace {

constexpr models::GptOptions gpt_options{.vocabulary = 11,
                                         .block_size = 6,
                                         .layers = 4,
                                         .heads = 2,
                                         .width = 8,
                                         .bias = true,
                                         .tie_weights = false};
constexpr int64_t C = gpt_options.width, V = gpt_options.vocabulary, T = gpt_options.block_size;
constexpr int64_t stages = 2, shards = 2, micro_batches = 4, blocks = gpt_options.layers / stages,
                  element = 8;

/// Bytes of a unit, each parameter and each shard padded to 16 elements.
int64_t padded(std::initializer_list<int64_t> sizes) {
  int64_t total = 0;
  for (const int64_t size : sizes) total += (size + 15) / 16 * 16;
  const int64_t step = 16 * shards;
  return (total + step - 1) / step * step * element;
}

/// Bytes that a rank of a stage sends in a step.
struct Sent {
  int64_t parameters = 0, gradients = 0, activations = 0;
};

Sent expected_bytes(Strategy strategy, ScheduleKind kind, int64_t stage) {
  const int64_t block = padded({C, C, 3 * C * C, C * C, C, C, C, 4 * C * C, 4 * C, 4 * C * C, C});
  // Outside of blocks: the embeddings of tokens and positions; the last norm and the head.
  const int64_t root = stage == 0 ? padded({V * C, T * C}) : padded({C, C, V * C});
  const int64_t all = blocks * block + root;
  const auto sent = [](int64_t bytes) { return bytes / shards * (shards - 1); };
  const bool is_split = kind == ScheduleKind::zb_h1;
  // F, B; or F, I, W. The ids of the first stage have no gradient: its I computes nothing.
  const int64_t root_uses = is_split ? 3 : 2, block_uses = is_split && stage > 0 ? 3 : 2;
  Sent expected;
  if (dist::traits_of(strategy).frees_after_forward)
    expected.parameters = micro_batches * sent(root_uses * root + block_uses * blocks * block);
  else if (strategy != Strategy::no_shard)
    expected.parameters = sent(all);
  expected.gradients = (strategy == Strategy::no_shard ? 2 : 1) * sent(all);
  // One value (B, T, C) forward from the first stage and its gradient back.
  for (const dist::MicroBatch& batch : test::language_batches(micro_batches))
    expected.activations += batch.inputs[0].numel() * C * element;
  return expected;
}

std::vector<std::string> check_step(dist::World& world, Strategy strategy, ScheduleKind kind) {
  std::vector<std::string> problems;
  models::Gpt gpt(gpt_options), whole(gpt_options);
  gpt.to(f64);
  whole.to(f64);
  const dist::Mesh mesh = dist::pipeline_mesh(world, stages);
  dist::Pipeline pipeline(gpt, gpt.to_layered_model(),
                          {.mesh = mesh,
                           .schedule = kind,
                           .partition = {.kind = dist::PartitionKind::boundaries, .boundaries = {0, 3, 6}}});
  pipeline.shard({.mesh = mesh, .strategy = strategy, .units = dist::every<models::Block>()});
  nn::materialize(gpt, cpu(), 5);
  nn::materialize(whole, cpu(), 5);
  optim::SGD sgd(pipeline.parameters(), {.lr = 0.1}), whole_sgd(whole.parameters(), {.lr = 0.1});
  // All copies of a stage have the same micro-batches: one device has them once.
  const std::vector<dist::MicroBatch> batches = test::language_batches(micro_batches);
  const int64_t stage = mesh.index("pipeline");
  dist::Ledger& ledger = world.communicator().ledger();
  for (int step = 0; step < 3; ++step) {
    ledger.reset();
    pipeline.train_step(batches);
    const bool is_gathered = strategy == Strategy::shard_optim && step == 0;  // by nn::materialize
    sgd.step();
    sgd.zero_grad();
    const Sent expected = expected_bytes(strategy, kind, stage);
    const auto compare = [&](dist::Traffic traffic, int64_t bytes) {
      const int64_t found = ledger.total(traffic).bytes;
      if (found != bytes)
        problems.push_back(text(strategy, ", ", dist::name_of(kind), ", stage ", stage, ", step ", step, ": ",
                                found, " bytes of ", dist::name_of(traffic), ", expected ", bytes));
    };
    compare(dist::Traffic::parameters, is_gathered ? 0 : expected.parameters);
    compare(dist::Traffic::gradients, expected.gradients);
    compare(dist::Traffic::activations, expected.activations);
    for (const dist::MicroBatch& batch : batches)
      (whole.loss(batch.inputs[0], batch.targets[0]) * (1.0 / micro_batches)).backward();
    whole_sgd.step();
    whole_sgd.zero_grad();
  }
  for (const NamedParameter& parameter : gpt.parameters()) {
    const Tensor found = parameter.variable.value().view({-1}),
                 expected = whole.get_parameter(parameter.name)
                                .value()
                                .view({-1})
                                .narrow(0, parameter.shard ? parameter.shard->first : 0, found.numel());
    double most = 0;
    for (int64_t i = 0; i < found.numel(); ++i)
      most = std::max(most, std::abs(found.data<double>()[i] - expected.data<double>()[i]));
    if (!(most <= 1e-12))
      problems.push_back(text(strategy, ": '", parameter.name, "' differs by ", most, " after three steps"));
  }
  return problems;
}

}  // namespace

TEST_CASE("pipeline, traffic: parameters, gradients and activations of a step are those of the formulas") {
  test::require_no_problems(stages * shards, [](dist::World& world) {
    std::vector<std::string> problems;
    for (const Strategy strategy : dist::flat_strategies)
      for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zb_h1})
        for (std::string& problem : check_step(world, strategy, kind)) problems.push_back(std::move(problem));
    return problems;
  });
}

TEST_CASE("pipeline, traffic: messages are as large as the values that have a gradient") {
  // Two values go forward, one of integers; one gradient comes back.
  test::require_no_problems(2, [](dist::World& world) {
    std::vector<std::string> problems;
    nn::Linear linear({.in = 4, .out = 4});
    const nn::LayeredModel layers{
        .layers = {test::values_layer(
                       "linear", {&linear},
                       [&](const nn::LayerValues& v) {
                         return nn::LayerValues{linear(v.at(0)), Variable(Tensor::from<int64_t>({1, 2, 3}))};
                       }),
                   test::values_layer("none", {}, [](const nn::LayerValues& v) { return v; })},
        .loss = test::squared_error()};
    linear.to(f64);
    dist::Pipeline pipeline(linear, layers, {.mesh = dist::pipeline_mesh(world, 2)});
    nn::materialize(linear, cpu(), 1);
    dist::Ledger& ledger = world.communicator().ledger();
    ledger.reset();
    pipeline.train_step(test::regression_batches(3));
    const int64_t value = 2 * 4 * 8;
    const int64_t expected = 3 * (pipeline.is_first() ? value + 3 * 8 : value);
    if (ledger.total(dist::Traffic::activations).bytes != expected)
      problems.push_back(text(ledger.total(dist::Traffic::activations).bytes, " bytes, expected ", expected));
    return problems;
  });
}
