// Predicted steps against formulas, and against runs on threads: bytes of memory and of messages.

#include "dist/simulate/step.h"

#include <algorithm>
#include <cmath>

#include "models/gpt.h"
#include "nn/materialize.h"
#include "optim/rules/adam.h"
#include "tensor/error.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/dist/pipeline/run/pipeline_matrix.h"

using namespace tessera;
using dist::MachineRates;
using dist::ScheduleKind;
using dist::SimulationOptions;
using dist::Strategy;

namespace {

constexpr int64_t T = 64, B = 8, V = 64;

models::GptOptions gpt_options(int64_t layers, bool tied = false) {
  return {.vocabulary = V,
          .block_size = T,
          .layers = layers,
          .heads = 2,
          .width = 64,
          .bias = true,
          .tie_weights = tied};
}

/// A model on meta with the profile of its micro-batches.
struct Profiled {
  models::Gpt gpt;
  dist::ModelProfile profile;
  explicit Profiled(const models::GptOptions& options, int64_t batch = B)
      : gpt(options),
        profile(gpt.to_layered_model(), {Tensor::empty({batch, T}, i64, meta())},
                {Tensor::empty({batch, T}, i64, meta())}) {}
};

/// A machine on which messages take no time to speak of.
MachineRates rates() {
  return {.flops_per_second = 1e9, .memory_bytes_per_second = 1e9, .link = {1e18, 0}};
}

/// Every layer takes the same: F 1, I 1, W 1 second.
void set_equal_times(dist::ModelProfile& profile) {
  std::vector<double> seconds;
  for (size_t i = 0; i < profile.layers().size(); ++i) seconds.insert(seconds.end(), {1, 2, 1, 1});
  profile.set_seconds(seconds);
}

std::vector<dist::MicroBatch> batches_of(int count) {
  std::vector<dist::MicroBatch> batches(static_cast<size_t>(count));
  for (dist::MicroBatch& batch : batches) {
    batch.inputs = {Tensor::zeros({B, T}, i64)};
    batch.targets = {Tensor::zeros({B, T}, i64)};
  }
  return batches;
}

/// What a rank held and sent in a real step.
struct Measured {
  int64_t peak = 0, activations = 0;
  int64_t parameters_sent = 0, gradients_sent = 0, activations_sent = 0;
};

Measured run_step(dist::World& world, const SimulationOptions& o, const models::GptOptions& options) {
  models::Gpt gpt(options);
  const dist::Mesh mesh(world, {{"pipeline", o.stages}, {"replica", o.replicas}, {"shard", o.shards}});
  dist::Pipeline pipeline(gpt, gpt.to_layered_model(),
                          {.mesh = mesh,
                           .schedule = o.schedule,
                           .chunks = o.chunks,
                           .partition = o.partition,
                           .checkpointing = o.checkpointing,
                           .micro_batches = o.micro_batches});
  if (o.shards * o.replicas > 1)
    pipeline.shard({.mesh = mesh, .strategy = o.strategy, .units = dist::every<models::Block>()});
  nn::materialize(gpt, cpu(), 5);
  optim::AdamW adam(pipeline.parameters(), {.lr = 1e-3});
  const std::vector<dist::MicroBatch> batches = batches_of(o.micro_batches);
  dist::Ledger& ledger = world.communicator().ledger();
  Measured measured;
  for (int step = 0; step < 3; ++step) {
    ledger.reset();
    current_account()->reset_peaks();
    pipeline.train_step(batches);
    adam.step();
    adam.zero_grad();
  }
  measured.peak = current_account()->total().peak;
  measured.activations = current_account()->count(MemoryCategory::activation).peak;
  measured.parameters_sent = ledger.total(dist::Traffic::parameters).bytes;
  measured.gradients_sent = ledger.total(dist::Traffic::gradients).bytes;
  measured.activations_sent = ledger.total(dist::Traffic::activations).bytes;
  return measured;
}

/// The peak of a step of one micro-batch of a model that is sharded as a whole.
int64_t run_sharded_step(dist::World& world, const SimulationOptions& o, const models::GptOptions& options) {
  models::Gpt gpt(options);
  gpt.blocks.set_checkpointing(o.checkpointing);
  dist::shard(gpt,
              {.mesh = dist::Mesh(world), .strategy = o.strategy, .units = dist::every<models::Block>()});
  nn::materialize(gpt, cpu(), 5);
  optim::AdamW adam(gpt.parameters(), {.lr = 1e-3});
  const dist::MicroBatch batch = batches_of(1)[0];
  for (int step = 0; step < 3; ++step) {
    current_account()->reset_peaks();
    gpt.loss(batch.inputs[0], batch.targets[0]).backward();
    adam.step();
    adam.zero_grad();
  }
  return current_account()->total().peak;
}

/// The prediction of each rank against its run; bytes of memory to `tolerance`, those sent exactly.
void require_as_measured(const SimulationOptions& o, const models::GptOptions& options, double tolerance) {
  CAPTURE(to_string(o.strategy));
  CAPTURE(std::string(dist::name_of(o.schedule)));
  CAPTURE(o.checkpointing.interval);
  Profiled model(options);
  const dist::SimulatedStep step = simulate_step(model.profile, o, rates());
  const int64_t columns = o.replicas * o.shards;
  test::require_no_problems(static_cast<int>(o.ranks()), [&](dist::World& world) {
    const Measured measured = run_step(world, o, options);
    const dist::SimulatedRank& predicted = step.ranks[static_cast<size_t>(world.rank() / columns)];
    std::vector<std::string> problems;
    const auto compare = [&](const char* what, int64_t got, int64_t expected, double within) {
      if (std::abs(static_cast<double>(got - expected)) > within * static_cast<double>(expected))
        problems.push_back(text(what, ": predicted ", expected, " bytes, measured ", got));
    };
    compare("peak", measured.peak, predicted.peak_bytes(), tolerance);
    compare("activations", measured.activations, predicted.activations, tolerance);
    compare("sent for parameters", measured.parameters_sent, predicted.traffic.parameters, 0);
    compare("sent for gradients", measured.gradients_sent,
            predicted.traffic.gradients + predicted.tied_traffic, 0);
    compare("sent of activations", measured.activations_sent, predicted.activation_traffic, 0);
    return problems;
  });
}

}  // namespace

TEST_CASE("simulated step: the bubble of equal stages is that of the formula") {
  Profiled model(gpt_options(10));  // 12 layers
  set_equal_times(model.profile);
  for (const int S : {1, 2, 3, 4})
    for (const int M : {1, 3, 4, 8}) {
      CAPTURE(S);
      CAPTURE(M);
      const auto step = simulate_step(
          model.profile,
          {.stages = S, .micro_batches = M, .partition = {.kind = dist::PartitionKind::uniform}}, rates());
      CHECK(step.timeline.bubble() == doctest::Approx((S - 1.0) / (M + S - 1)));
      // F 1 and B 2 of the 12 / S layers of a stage; the update is small beside them.
      CHECK(step.timeline.makespan == doctest::Approx(3.0 * 12 / S * (M + S - 1)));
      CHECK(step.exposed_communication == doctest::Approx(0).epsilon(1e-9));
    }
}

TEST_CASE("simulated step: the same times as the table of the schedule alone") {
  Profiled model(gpt_options(14));  // 16 layers
  set_equal_times(model.profile);
  for (const ScheduleKind kind : dist::schedule_kinds) {
    CAPTURE(std::string(dist::name_of(kind)));
    const auto step = simulate_step(model.profile,
                                    {.stages = 4,
                                     .schedule = kind,
                                     .micro_batches = 6,
                                     .partition = {.kind = dist::PartitionKind::uniform}},
                                    rates());
    const double layers = 16.0 / step.schedule.stages;
    std::vector<dist::StageTimes> times(static_cast<size_t>(step.schedule.stages), {layers, layers, layers});
    times[0].backward_input = 0;  // ids have no gradient: W computes all
    times[0].backward_weight = 2 * layers;
    CHECK(step.timeline.makespan == doctest::Approx(simulate(step.schedule, {.stages = times}).makespan));
  }
}

TEST_CASE("simulated step: one rank for all is the same as every rank") {
  Profiled model(gpt_options(5));
  MachineRates one = rates();
  one.link = {1e6, 1e-4};
  MachineRates every = one;
  for (const bool overlaps : {true, false})
    for (const Strategy strategy : dist::strategies) {
      CAPTURE(to_string(strategy));
      const bool replicates = dist::traits_of(strategy).replicates;
      const SimulationOptions o{.stages = 4,
                                .replicas = replicates ? 2 : 1,
                                .shards = replicates ? 4 : 8,
                                .strategy = strategy,
                                .micro_batches = 5,
                                .unit_kind = "Block"};
      one.overlaps = every.overlaps = overlaps;
      every.speeds.assign(static_cast<size_t>(o.ranks()), 1);
      const auto first = simulate_step(model.profile, o, one), all = simulate_step(model.profile, o, every);
      CHECK(first.seconds == all.seconds);
      CHECK(first.exposed_communication > 0);
      CHECK(std::ssize(first.ranks) == 4);
      CHECK(first.ranks[1].copies == 8);
      CHECK(std::ssize(all.ranks) == 32);
      CHECK(all.ranks[9].traffic.total() == first.ranks[1].traffic.total());
    }
}

TEST_CASE("simulated step: a slow rank makes the others wait") {
  Profiled model(gpt_options(5));
  set_equal_times(model.profile);
  MachineRates slow = rates();
  const SimulationOptions o{.shards = 4, .strategy = Strategy::no_shard};
  const double equal = simulate_step(model.profile, o, slow).seconds;
  slow.speeds = {1, 1, 0.5, 1};
  CHECK(simulate_step(model.profile, o, slow).seconds == doctest::Approx(2 * equal));
}

TEST_CASE("simulated step: messages beside computing are hidden, in a rank's own time they are not") {
  Profiled model(gpt_options(5));
  set_equal_times(model.profile);
  MachineRates machine = rates();
  machine.link = {1e5, 0};
  SimulationOptions o{.shards = 4, .strategy = Strategy::full_shard, .unit_kind = "Block"};
  const auto hidden = simulate_step(model.profile, o, machine);
  machine.overlaps = false;
  const auto exposed = simulate_step(model.profile, o, machine);
  CHECK(exposed.exposed_communication == doctest::Approx(exposed.ranks[0].communication));
  CHECK(hidden.exposed_communication < exposed.exposed_communication);
  CHECK(hidden.seconds < exposed.seconds);
  machine.overlaps = true;
  o.backward_prefetch = dist::BackwardPrefetch::none;
  CHECK(simulate_step(model.profile, o, machine).seconds > hidden.seconds);
}

TEST_CASE("simulated step: memory and traffic of stages as measured") {
  for (const ScheduleKind kind : dist::schedule_kinds)
    require_as_measured({.stages = 2, .schedule = kind, .micro_batches = 4}, gpt_options(6), 0.05);
  for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::gpipe, ScheduleKind::zb_h1})
    require_as_measured({.stages = 2, .schedule = kind, .micro_batches = 4, .checkpointing = {.interval = 1}},
                        gpt_options(6), 0.05);
  require_as_measured({.stages = 3, .micro_batches = 5}, gpt_options(6, true), 0.05);
}

TEST_CASE("simulated step: memory and traffic of sharded stages as measured") {
  for (const Strategy strategy : dist::strategies) {
    const bool replicates = dist::traits_of(strategy).replicates;
    require_as_measured({.stages = 2,
                         .replicas = replicates ? 2 : 1,
                         .shards = 2,
                         .strategy = strategy,
                         .micro_batches = 4,
                         .unit_kind = "Block"},
                        gpt_options(6), 0.05);
  }
}

TEST_CASE("simulated step: memory and traffic of sharded stages by every schedule as measured") {
  // Gradients come by unit (step.cpp), and what messages hold depends on when they arrive.
  constexpr double tolerance = 0.08;
  for (const Strategy strategy : {Strategy::full_shard, Strategy::no_shard})
    for (const ScheduleKind kind : dist::schedule_kinds)
      for (const int interval : {0, 1})
        require_as_measured({.stages = 2,
                             .shards = 2,
                             .strategy = strategy,
                             .schedule = kind,
                             .micro_batches = 4,
                             .checkpointing = {.interval = interval},
                             .unit_kind = "Block"},
                            gpt_options(8), tolerance);
  for (const ScheduleKind kind : {ScheduleKind::interleaved, ScheduleKind::breadth_first})
    require_as_measured({.stages = 2, .schedule = kind, .micro_batches = 4, .checkpointing = {.interval = 1}},
                        gpt_options(8), tolerance);
}

TEST_CASE("simulated step: a pipeline of one stage as measured") {
  for (const Strategy strategy : {Strategy::full_shard, Strategy::shard_grad_op, Strategy::no_shard})
    require_as_measured({.stages = 1,
                         .shards = 2,
                         .strategy = strategy,
                         .is_pipeline = true,
                         .micro_batches = 4,
                         .unit_kind = "Block"},
                        gpt_options(4), 0.05);
}

TEST_CASE("simulated step: memory of a sharded model with one backward a step") {
  for (const Strategy strategy :
       {Strategy::no_shard, Strategy::shard_optim, Strategy::shard_grad_op, Strategy::full_shard})
    for (const int64_t interval : {0, 1}) {
      CAPTURE(to_string(strategy));
      CAPTURE(interval);
      const SimulationOptions o{.shards = 2,
                                .strategy = strategy,
                                .micro_batches = 1,
                                .checkpointing = {.interval = interval},
                                .unit_kind = "Block"};
      models::GptOptions options = gpt_options(6);
      options.width = 128;
      Profiled model(options);
      const int64_t predicted = simulate_step(model.profile, o, rates()).peak_bytes();
      test::require_no_problems(2, [&](dist::World& world) {
        const int64_t measured = run_sharded_step(world, o, options);
        std::vector<std::string> problems;
        if (std::abs(static_cast<double>(predicted) / static_cast<double>(measured) - 1) > 0.05)
          problems.push_back(text("peak: predicted ", predicted, " bytes, measured ", measured));
        return problems;
      });
    }
}

TEST_CASE("simulated step: 100,000 ranks") {
  Profiled model(gpt_options(62), 1);
  const SimulationOptions o{.stages = 50,
                            .replicas = 250,
                            .shards = 8,
                            .strategy = Strategy::hybrid_shard,
                            .micro_batches = 200,
                            .unit_kind = "Block"};
  REQUIRE(o.ranks() == 100000);
  MachineRates machine = rates();
  machine.link = {1e9, 1e-5};
  const auto step = simulate_step(model.profile, o, machine);
  CHECK(step.ranks.size() == 50);
  CHECK(step.ranks[49].rank == 98000);
  CHECK(step.ranks[49].copies == 2000);
  CHECK(step.seconds > 0);
}

TEST_CASE("simulated step: bad input is refused") {
  Profiled model(gpt_options(2));  // 4 layers
  const auto run = [&](const SimulationOptions& o, const MachineRates& machine = rates()) {
    return simulate_step(model.profile, o, machine);
  };
  CHECK_THROWS_WITH_AS(run({.stages = 5}), "simulation: expected at most 4 stages, as many as layers, got 5",
                       ConfigError);
  CHECK_THROWS_AS(run({.shards = 0}), ConfigError);
  CHECK_THROWS_WITH_AS(run({.replicas = 2}),
                       "simulation: expected 1 replica of no_shard, got 2; hybrid_shard or "
                       "hybrid_shard_zero2 have several",
                       ConfigError);
  MachineRates machine = rates();
  machine.speeds = {1};
  CHECK_THROWS_WITH_AS(run({.shards = 2}, machine), "simulation: expected speeds of 2 ranks, got 1",
                       ConfigError);
  machine = rates();
  machine.links["shard"] = {0, 0};
  CHECK_THROWS_WITH_AS(run({}, machine),
                       "rates of the machine: link along 'shard': expected bytes a second above 0, got 0",
                       ConfigError);
}

TEST_CASE("step: transfers along two dimensions of one link share its rate") {
  Profiled model(gpt_options(4));
  set_equal_times(model.profile);
  MachineRates own = rates();
  // A gather takes longer than a message.
  own.links["shard"] = own.links["pipeline"] = {.bytes_per_second = 1e4, .latency = 0};
  MachineRates shared = own;
  shared.links["shard"].name = shared.links["pipeline"].name = "way out";
  const SimulationOptions o{.stages = 2,
                            .shards = 2,
                            .strategy = Strategy::full_shard,
                            .schedule = ScheduleKind::gpipe,
                            .is_pipeline = true,
                            .micro_batches = 2};
  const dist::SimulatedStep apart = simulate_step(model.profile, o, own),
                            together = simulate_step(model.profile, o, shared);
  const double message = static_cast<double>(apart.ranks[0].activation_traffic) / 2 / 1e4;
  const auto begin = [](const dist::SimulatedStep& step, size_t rank, size_t action) {
    return step.timeline.ranks[rank][action].begin;
  };
  // After F0 the gather for F1 and the message of F0 begin at once.
  const double f = apart.timeline.ranks[0][0].end - apart.timeline.ranks[0][0].begin;
  const double gather = begin(apart, 0, 0);
  REQUIRE(message < gather);
  CHECK(begin(apart, 0, 1) == doctest::Approx(gather + f + gather));
  CHECK(begin(apart, 1, 0) == doctest::Approx(gather + f + message));
  CHECK(begin(together, 0, 1) == doctest::Approx(gather + f + gather + message));
  CHECK(begin(together, 1, 0) == doctest::Approx(gather + f + 2 * message));
  CHECK(together.seconds > apart.seconds);
}
