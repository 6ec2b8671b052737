// The corner cases of stages, sharded by every strategy.

#include <doctest/doctest.h>

#include "dist/checkpoint/distributed_checkpoint.h"
#include "dist/checkpoint/model_state.h"
#include "nn/materialize.h"
#include "optim/clip.h"
#include "optim/rules/adam.h"
#include "tensor/ops/elementwise/cast.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/dist/pipeline/run/small_models.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;

namespace {

std::vector<dist::MicroBatch> regression_batches_in(DType dtype, int count) {
  std::vector<dist::MicroBatch> batches = test::regression_batches(count);
  for (dist::MicroBatch& batch : batches) batch.inputs[0] = ops::cast(batch.inputs[0], dtype);
  return batches;
}

std::vector<std::string> compare_sharded(dist::World& world, const test::MakeModel& make,
                                         const test::ComparisonOptions& comparison = {}) {
  std::vector<std::string> problems;
  const std::vector<dist::MicroBatch> batches = regression_batches_in(comparison.dtype, 6);
  for (const dist::Strategy strategy : dist::flat_strategies)
    for (const dist::ScheduleKind kind :
         {dist::ScheduleKind::one_f_one_b, dist::ScheduleKind::zb_h1, dist::ScheduleKind::interleaved}) {
      test::ComparisonOptions each = comparison;
      each.strategy = strategy;
      for (const std::string& problem :
           test::compare_steps(world,
                               {.mesh = dist::pipeline_mesh(world, 2),
                               .schedule = kind,
                               .partition = dist::parse_partition_method("uniform")},
                               make, batches, each))
        problems.push_back(text(strategy, ": ", problem));
    }
  return problems;
}

}  // namespace

TEST_CASE("pipeline, sharded cases: parameters and views of them among the values") {
  test::require_as_on_one_device(test::queries);
  test::require_no_problems(4, [&](dist::World& world) { return compare_sharded(world, test::queries); });
}

TEST_CASE("pipeline, sharded cases: an optimizer on a rank without parameters, sharded or not") {
  for (const bool is_first : {false, true})
    for (const std::optional<dist::Strategy> strategy :
         {std::optional<dist::Strategy>(), std::optional(dist::Strategy::full_shard)}) {
      const TemporaryFolder folder;
      test::require_no_problems(strategy ? 4 : 2, [&](dist::World& world) {
        std::vector<std::string> problems;
        const test::StagedModel model = test::half_without_parameters(is_first)();
        model.module->to(f64);
        const dist::Mesh mesh = dist::pipeline_mesh(world, 2);
        dist::Pipeline pipeline(*model.module, model.layers,
                                {.mesh = mesh, .partition = dist::parse_partition_method("uniform")});
        if (strategy)
          pipeline.shard({.mesh = mesh, .strategy = *strategy, .units = dist::every<nn::Linear>()});
        nn::materialize(*model.module, cpu(), 1);
        optim::AdamW adam(pipeline.parameters(), {.lr = 0.01});
        double last = 0;
        for (int step = 0; step < 3; ++step) {
          const double loss = pipeline.train_step(test::regression_batches(2));
          if (step > 0 && loss >= last) problems.push_back(text("loss ", loss, " after ", last));
          last = loss;
          optim::clip_grad_norm(pipeline.parameters(), 1.0);
          adam.step();
          adam.zero_grad();
        }
        // Its checkpoint has the other rank's tensors alone.
        const auto groups = [&] { return dist::shards_of(*model.module, &adam, pipeline.placement()); };
        dist::save_checkpoint(world.communicator(), folder.path(), {.step = 3, .seed = 1}, groups());
        const auto reader = dist::open_checkpoint(world.communicator(), folder.path());
        dist::load_checkpoint(world.communicator(), *reader, groups());
        const double loaded = pipeline.evaluate(test::regression_batches(2));
        if (loaded >= last) problems.push_back(text("loss ", loaded, " of the checkpoint, after ", last));
        return problems;
      });
    }
}

TEST_CASE("pipeline, sharded cases: sharded stages, tied, frozen, cut, accumulated over steps") {
  std::vector<test::MakeModel> models{
      test::half_without_parameters(false),   test::half_without_parameters(true),
      test::four_layers(test::chain),         test::tied_layers({0, 1, 3}),
      test::tied_layers({0, 2, 3}, {}, true), test::tied_layers({0, 3}, {3}),
      test::tied_layers({0, 2}, {0}),         test::tied_layers({0, 3}, {0, 3})};
  for (const std::string names : {"b", "ab", "cd"}) models.push_back(test::frozen_chain(names));
  for (const test::MakeModel& make : models)
    test::require_no_problems(4, [&](dist::World& world) { return compare_sharded(world, make); });
}

TEST_CASE("pipeline, sharded cases: parameters that are frozen and unfrozen between steps") {
  // In the second step `linear` and a parameter of the root are frozen, in the third they are trained again.
  test::ComparisonOptions comparison{.steps = 3};
  comparison.before_step = [](nn::Module& model, int step) {
    for (const char* name : {"queries", "linear.weight", "linear.bias"})
      model.get_parameter(name).set_requires_grad(step != 1);
  };
  test::ComparisonOptions begins_frozen = comparison;
  begins_frozen.before_step = [](nn::Module& model, int step) {
    for (const char* name : {"queries", "linear.weight", "linear.bias"})
      model.get_parameter(name).set_requires_grad(step > 0);
  };
  for (const test::ComparisonOptions& each : {comparison, begins_frozen}) {
    test::require_no_problems(
        4, [&](dist::World& world) { return compare_sharded(world, test::queries, each); });
    test::require_no_problems(2, [&](dist::World& world) {
      return test::compare_steps(
          world,
          {.mesh = dist::pipeline_mesh(world, 2), .partition = dist::parse_partition_method("uniform")},
          test::queries, test::regression_batches(3), each);
    });
  }
}

TEST_CASE("pipeline, sharded cases: options of sharding, and dimensions of the mesh in another order") {
  using Change = std::function<void(dist::ShardOptions&)>;
  for (const Change& change :
       std::vector<Change>{[](auto& o) { o.forward_prefetch = true; },
                           [](auto& o) { o.backward_prefetch = dist::BackwardPrefetch::post; },
                           [](auto& o) { o.backward_prefetch = dist::BackwardPrefetch::none; },
                           [](auto& o) { o.gathers_in_flight = 3, o.forward_prefetch = true; },
                           [](auto& o) { o.messages.overlap = false; }, [](auto& o) { o.units = {}; }})
    test::require_no_problems(4, [&](dist::World& world) {
      return compare_sharded(world, test::tied_layers({0, 1, 3}), {.change = change});
    });
  test::require_no_problems(4, [](dist::World& world) {
    return test::compare_steps(world, {.mesh = dist::Mesh(world, {{"shard", 2}, {"pipeline", 2}})},
                               test::four_layers(test::chain), test::regression_batches(4),
                               {.strategy = dist::Strategy::full_shard});
  });
}

TEST_CASE("pipeline, sharded cases: stages in bf16, by sharding and by the model's dtype") {
  // Rounded to 8 bits in each of 4 layers, forward and backward.
  const double tolerance = 4 * 2 * 0x1p-8;
  test::require_no_problems(4, [&](dist::World& world) {
    return compare_sharded(world, test::four_layers(test::chain),
                           {.precision = {.compute = bf16}, .dtype = f32, .tolerance = tolerance});
  });
  test::require_no_problems(2, [&](dist::World& world) {
    const std::vector<dist::MicroBatch> batches = regression_batches_in(bf16, 3);
    std::vector<std::string> problems;
    for (const dist::ScheduleKind kind : dist::schedule_kinds)
      for (std::string& problem : test::compare_steps(world,
                                                      {.mesh = dist::pipeline_mesh(world, 2),
                                                      .schedule = kind,
                                                      .partition = dist::parse_partition_method("uniform")},
                                                      test::four_layers(test::chain), batches,
                                                      {.dtype = bf16, .steps = 1, .tolerance = tolerance}))
        problems.push_back(std::move(problem));
    return problems;
  });
}
