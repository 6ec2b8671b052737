// Random numbers in stages: those with a module's name are one device's, those without a name are the same
// for any cut and new in each micro-batch.

#include <set>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/shaping.h"
#include "models/dnn.h"
#include "nn/layers/dropout.h"
#include "nn/materialize.h"
#include "tensor/functions.h"
#include "tensor/random/random_context.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/dist/pipeline/run/small_models.h"

using namespace tessera;
using nn::LayerValues;

namespace {

/// Three linear layers' worth of width, and a dropout that layers may share.
struct Net : test::FourLayers {
  nn::Dropout& drop = add<nn::Dropout>("drop", 0.5);
};

using Runs = std::vector<std::function<LayerValues(const LayerValues&)>>;

test::MakeModel net_of(const std::function<Runs(Net&)>& runs, bool shares_dropout) {
  return [=] {
    auto net = std::make_unique<Net>();
    test::StagedModel made{.layers = {.loss = test::squared_error()}};
    const nn::Module* const layers[] = {&net->a, &net->b, &net->c, &net->d};
    const Runs list = runs(*net);
    for (size_t i = 0; i < list.size(); ++i) {
      std::vector<const nn::Module*> modules{layers[i]};
      if (shares_dropout || i == 2) modules.push_back(&net->drop);
      made.layers.layers.push_back(test::values_layer(text("layer ", i), modules, list[i]));
    }
    made.module = std::move(net);
    return made;
  };
}

/// Micro-batches with the numbers of their samples.
std::vector<dist::MicroBatch> batches_with_samples(int count, int64_t rows) {
  std::vector<dist::MicroBatch> batches = test::regression_batches(count, rows);
  int64_t sample = 0;
  for (dist::MicroBatch& batch : batches)
    for (int64_t row = 0; row < rows; ++row) batch.samples.push_back(sample++);
  return batches;
}

/// Loss and gradients of a step in stages, with the problems against one device.
std::vector<std::string> compare_with_one_device(dist::World& world, const test::MakeModel& make,
                                                 const std::vector<dist::MicroBatch>& batches,
                                                 dist::ScheduleKind schedule, int64_t interval) {
  test::StagedModel whole = make(), staged = make();
  whole.module->to(f64);
  staged.module->to(f64);
  dist::Pipeline pipeline(*staged.module, staged.layers,
                          {.mesh = dist::pipeline_mesh(world, world.size()),
                           .schedule = schedule,
                           .partition = dist::parse_partition_method("uniform"),
                           .checkpointing = {.interval = interval}});
  nn::materialize(*whole.module, cpu(), 11);
  nn::materialize(*staged.module, cpu(), 11);
  begin_random_step(11, 0, {});
  const double loss = pipeline.train_step(batches);
  double expected = 0;
  for (const dist::MicroBatch& batch : batches) {
    begin_random_step(11, 0, batch.samples);
    const LayerValues inputs(batch.inputs.begin(), batch.inputs.end());
    const Variable of = whole.layers.loss.run(nn::run_layers(whole.layers.layers, inputs), batch.targets);
    expected += of.value().item() / static_cast<double>(batches.size());
    of.backward(Variable(Tensor::scalar(1.0 / static_cast<double>(batches.size()))));
  }
  std::vector<std::string> problems;
  if (!(std::abs(loss - expected) < 1e-12)) problems.push_back(text("loss ", loss, ", expected ", expected));
  for (const NamedParameter& parameter : staged.module->parameters()) {
    const Tensor got = parameter.variable.grad().value(),
                 of = whole.module->get_parameter(parameter.name).grad().value();
    const double difference = max(abs(got - of)).item();
    if (!(difference < 1e-12)) problems.push_back(text(parameter.name, ": gradient off by ", difference));
  }
  return problems;
}

void require_as_on_one_device(const std::function<Runs(Net&)>& runs, int64_t rows, bool shares_dropout) {
  using enum dist::ScheduleKind;
  for (const int ranks : {2, 4})
    for (const dist::ScheduleKind schedule : {one_f_one_b, zb_h1, gpipe})
      for (const int64_t interval : {0, 1})
        test::require_no_problems(ranks, [&](dist::World& world) {
          return compare_with_one_device(world, net_of(runs, shares_dropout), batches_with_samples(3, rows),
                                         schedule, interval);
        });
  for (const dist::ScheduleKind schedule : {interleaved, zb_v})
    test::require_no_problems(2, [&](dist::World& world) {
      return compare_with_one_device(world, net_of(runs, shares_dropout), batches_with_samples(3, rows),
                                     schedule, 0);
    });
}

/// What a layer with noise draws in two steps of three micro-batches, by layer; all ranks together.
std::vector<double> drawn(int ranks, dist::ScheduleKind schedule) {
  std::mutex mutex;
  std::map<std::pair<int64_t, int>, double> all;  // by draw's sample and layer
  dist::launch(
      [&](dist::World& world) {
        const auto noise = [&](const nn::Linear& linear, int layer) {
          return [&, layer](const LayerValues& values) {
            const Tensor drawn = randn({1}, f64);
            {
              const std::lock_guard lock(mutex);
              all[{random_context().samples[0] + 100 * random_context().step, layer}] = drawn.item();
            }
            return LayerValues{linear(values.at(0)) + Variable(drawn)};
          };
        };
        const test::StagedModel staged = net_of(
            [&](Net& n) {
              return Runs{noise(n.a, 0), noise(n.b, 1), noise(n.c, 2), noise(n.d, 3)};
            },
            false)();
        staged.module->to(f64);
        dist::Pipeline pipeline(*staged.module, staged.layers,
                                {.mesh = dist::pipeline_mesh(world, world.size()),
                                 .schedule = schedule,
                                 .partition = dist::parse_partition_method("uniform")});
        nn::materialize(*staged.module, cpu(), 11);
        manual_seed(5 + static_cast<uint64_t>(world.rank()) * 7);
        if (world.rank() == 0) manual_seed(5);
        for (int step = 0; step < 2; ++step) {
          begin_random_step(11, step, {});
          pipeline.train_step(batches_with_samples(3, 2));
        }
      },
      {.virtual_ranks = ranks});
  std::vector<double> values;
  for (const auto& [place, value] : all) values.push_back(value);
  return values;
}

}  // namespace

TEST_CASE("pipeline, random numbers: where values hold the samples goes from stage to stage") {
  const auto runs = [](Net& n) {
    return Runs{[&](const LayerValues& v) { return LayerValues{n.a(v.at(0))}; },
                [&](const LayerValues& v) { return LayerValues{n.b(v.at(0)).transpose(0, 1)}; },
                [&](const LayerValues& v) { return LayerValues{n.c(n.drop(v.at(0)).transpose(0, 1))}; },
                [&](const LayerValues& v) { return LayerValues{n.d(v.at(0))}; }};
  };
  require_as_on_one_device(runs, 2, false);
  require_as_on_one_device(runs, 4, false);  // as many samples as columns: no error would come
}

TEST_CASE("pipeline, random numbers: a module that several stages call draws on") {
  const auto runs = [](Net& n) {
    const auto with = [&n](const nn::Linear& linear) {
      return [&](const LayerValues& v) { return LayerValues{n.drop(linear(v.at(0)))}; };
    };
    return Runs{with(n.a), with(n.b), with(n.c), with(n.d)};
  };
  require_as_on_one_device(runs, 2, true);
}

TEST_CASE("pipeline, random numbers: draws without a name are new in each micro-batch and step") {
  const std::vector<double> values = drawn(2, dist::ScheduleKind::one_f_one_b);
  CHECK(values.size() == 24);
  CHECK(std::set<double>(values.begin(), values.end()).size() == 24);
  CHECK(drawn(4, dist::ScheduleKind::one_f_one_b) == values);
  CHECK(drawn(1, dist::ScheduleKind::gpipe) == values);
  CHECK(drawn(2, dist::ScheduleKind::zb_v) == values);
}
