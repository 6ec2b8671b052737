// Arguments that a pipeline refuses: meshes, layers, models, tables, micro-batches, losses.

#include <cmath>

#include "autograd/grad_mode.h"
#include "dist/pipeline/schedule/csv.h"
#include "models/dnn.h"
#include "nn/materialize.h"
#include "nn/mixed_precision.h"
#include "nn/sequence/hold.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/dist/fsdp/rank_errors.h"
#include "tests/dist/pipeline/run/step_comparison.h"
#include "tests/support/error_text.h"

using namespace tessera;

namespace {

constexpr models::DnnOptions dnn_options{.layers = 4, .width = 4};

/// Adds a problem unless `body` throws an E that contains `expected`.
template <class E, class Body>
void expect(std::vector<std::string>& problems, const std::string& expected, const Body& body) {
  const std::string found = message_of<E>(body);
  if (!contains(found, expected)) problems.push_back(text("expected '", expected, "', got '", found, "'"));
}

/// A perceptron in f64 with values, cut over all ranks.
struct Cut {
  models::Dnn dnn{dnn_options};
  dist::Pipeline pipeline;
  explicit Cut(dist::World& world, const std::function<void(nn::LayeredModel&)>& change = {},
               std::function<double(const std::vector<Tensor>&)> weight = {})
      : pipeline(dnn, layers(change),
                 {.mesh = dist::pipeline_mesh(world, world.size()), .weight = std::move(weight)}) {
    nn::materialize(dnn, cpu(), 1);
  }

 private:
  nn::LayeredModel layers(const std::function<void(nn::LayeredModel&)>& change) {
    dnn.to(f64);
    nn::LayeredModel model = dnn.to_layered_model();
    if (change) change(model);
    return model;
  }
};

dist::PipelineSchedule table(const std::string& csv) {
  return dist::parse_schedule_csv(csv, "own");
}

}  // namespace

TEST_CASE("pipeline, refused: meshes") {
  test::require_no_problems(4, [](dist::World& world) {
    std::vector<std::string> problems;
    models::Dnn dnn(dnn_options);
    expect<ConfigError>(problems, "3 stages: expected a divisor of the 4 ranks",
                        [&] { dist::pipeline_mesh(world, 3); });
    expect<ConfigError>(problems, "0 stages", [&] { dist::pipeline_mesh(world, 0); });
    expect<ConfigError>(problems, "expected a mesh with a dimension 'pipeline'",
                        [&] { dist::Pipeline(dnn, dnn.to_layered_model(), {.mesh = dist::Mesh(world)}); });
    expect<ConfigError>(problems, "got a dimension 'tensor' of 2 ranks", [&] {
      dist::Pipeline(dnn, dnn.to_layered_model(),
                     {.mesh = dist::Mesh(world, {{"pipeline", 2}, {"tensor", 2}})});
    });
    return problems;
  });
}

TEST_CASE("pipeline, refused: layers and models, and nothing is cut then") {
  test::require_no_problems(3, [](dist::World& world) {
    std::vector<std::string> problems;
    const dist::Mesh mesh = dist::pipeline_mesh(world, 3);
    const auto cut = [&](nn::Module& model, const nn::LayeredModel& layers) {
      dist::Pipeline pipeline(model, layers, {.mesh = mesh});
    };
    models::Dnn two({.layers = 2, .width = 4}), dnn(dnn_options), other(dnn_options);
    expect<ConfigError>(problems, "expected at least a layer for each of 3 stages, got 2 layers",
                        [&] { cut(two, two.to_layered_model()); });
    nn::LayeredModel fewer = dnn.to_layered_model();
    fewer.layers.pop_back();
    expect<ConfigError>(problems, "'layers.3.weight' is in none of the 3 layers", [&] { cut(dnn, fewer); });
    nn::LayeredModel foreign = dnn.to_layered_model();
    foreign.layers[1].modules.push_back(&other);
    expect<ConfigError>(problems, "layer 'layers.1' reads parameters of another model",
                        [&] { cut(dnn, foreign); });
    nn::LayeredModel foreign_loss = dnn.to_layered_model();
    foreign_loss.loss.modules = {&other};
    expect<ConfigError>(problems, "the loss reads parameters of another model",
                        [&] { cut(dnn, foreign_loss); });
    expect<ConfigError>(problems, "numbers that ascend from 0 to 4", [&] {
      dist::Pipeline(dnn, dnn.to_layered_model(),
                     {.mesh = mesh, .partition = dist::parse_partition_method("0,2,2,4")});
    });
    expect<ConfigError>(problems, "at least 1 micro-batch, got 0", [&] {
      dist::Pipeline(dnn, dnn.to_layered_model(), {.mesh = mesh, .micro_batches = 0});
    });
    if (std::ssize(dnn.parameters()) != 8) problems.push_back("a refused model was cut");

    models::Dnn mixed(dnn_options), sharded(dnn_options);
    nn::materialize(mixed, cpu(), 1);
    nn::use_mixed_precision(mixed, bf16);
    expect<ConfigError>(problems, "is in mixed precision; cut the model into stages before",
                        [&] { cut(mixed, mixed.to_layered_model()); });
    dist::shard(sharded, {.mesh = dist::Mesh(world)});
    expect<ConfigError>(problems, "are sharded; cut the model into stages before",
                        [&] { cut(sharded, sharded.to_layered_model()); });
    cut(dnn, dnn.to_layered_model());
    expect<ConfigError>(problems, "the model is cut already", [&] { cut(dnn, dnn.to_layered_model()); });
    return problems;
  });
}

TEST_CASE("pipeline, refused: tables") {
  test::require_no_problems(2, [](dist::World& world) {
    std::vector<std::string> problems;
    const dist::Mesh mesh = dist::pipeline_mesh(world, 2);
    const auto with_table = [&](const std::function<dist::PipelineSchedule(int)>& make, int micro_batches) {
      models::Dnn dnn(dnn_options);
      dist::Pipeline pipeline(dnn, dnn.to_layered_model(), {.mesh = mesh, .table = make});
      pipeline.schedule(micro_batches);
    };
    const std::string one_rank = "0F0,0B0\n", two = "0F0,0B0\n1F0,1B0\n",
                      swapped = "1F0,1F1,1B0,1B1\n0F0,0F1,0B0,0B1\n";
    expect<ConfigError>(problems, "expected 2 ranks and 1 micro-batches, got 1 and 1",
                        [&] { with_table([&](int) { return table(one_rank); }, 1); });
    expect<ConfigError>(problems, "expected 2 ranks and 2 micro-batches, got 2 and 1",
                        [&] { with_table([&](int) { return table(two); }, 2); });
    expect<ConfigError>(problems, "its stages are on other ranks for 2 micro-batches than for 1",
                        [&] { with_table([&](int count) { return table(count == 1 ? two : swapped); }, 2); });
    return problems;
  });
}

TEST_CASE("pipeline, refused: a step under NoGrad, copies without `shard`, sharding twice or elsewhere") {
  test::require_no_problems(4, [](dist::World& world) {
    std::vector<std::string> problems;
    const dist::Mesh mesh = dist::pipeline_mesh(world, 2);
    const std::vector<dist::MicroBatch> batches = test::regression_batches(2);
    models::Dnn dnn(dnn_options), directly(dnn_options);
    dnn.to(f64);
    directly.to(f64);
    dist::Pipeline pipeline(dnn, dnn.to_layered_model(), {.mesh = mesh});
    expect<ConfigError>(problems, "2 ranks have the same stages: call `shard` with a strategy",
                        [&] { pipeline.train_step(batches); });
    expect<ConfigError>(problems, "expected the mesh of the pipeline, got one with other ranks along 'shard'",
                        [&] { pipeline.shard({.mesh = dist::Mesh(world)}); });
    pipeline.shard({.mesh = mesh});
    expect<ConfigError>(problems, "the stages are sharded already", [&] { pipeline.shard({.mesh = mesh}); });
    nn::materialize(dnn, cpu(), 1);
    {
      NoGrad no_grad;
      expect<AutogradError>(problems, "called under NoGrad", [&] { pipeline.train_step(batches); });
    }
    pipeline.train_step(batches);

    const dist::Mesh deep = dist::pipeline_mesh(world, 4);
    dist::Pipeline one_each(directly, directly.to_layered_model(), {.mesh = deep});
    dist::shard(directly, {.mesh = deep});
    nn::materialize(directly, cpu(), 1);
    expect<ConfigError>(problems, "call `shard` of the pipeline instead",
                        [&] { one_each.train_step(batches); });
    return problems;
  });
}

TEST_CASE("pipeline, refused: weights, losses and layers end all ranks with the place") {
  using Change = std::function<void(nn::LayeredModel&)>;
  const auto errors_with = [](const Change& change, double weight, bool trains) {
    return test::errors_of(2, [&](dist::World& world) {
      Cut cut(world, change, [weight](const std::vector<Tensor>&) { return weight; });
      const std::vector<dist::MicroBatch> batches = test::regression_batches(2);
      trains ? cut.pipeline.train_step(batches) : cut.pipeline.evaluate(batches);
    });
  };
  const Change whole_loss = [](nn::LayeredModel& model) {
    model.loss.run = [](const nn::LayerValues& values, const std::vector<Tensor>&) { return values.at(0); };
  };
  const Change no_loss = [](nn::LayeredModel& model) {
    model.loss.run = [](const nn::LayerValues&, const std::vector<Tensor>&) { return Variable(); };
  };
  const Change two_values = [](nn::LayeredModel& model) {
    model.layers[2].run = [run = model.layers[2].run](const nn::LayerValues& values) {
      return nn::LayerValues{run(values).at(0), values.at(0)};
    };
  };
  struct Case {
    Change change;
    double weight;
    std::string expected;
  };
  const double nan = std::nan("");
  for (const bool trains : {true, false})
    for (const auto& [change, weight, expected] : std::vector<Case>{
             {{}, -1, "expected finite weights of at least 0, got -1 for micro-batch 0"},
             {{}, nan, "expected finite weights of at least 0, got nan"},
             {{}, INFINITY, "expected finite weights of at least 0, got inf"},
             {whole_loss, 1,
              "pipeline, 1F0 (stage 1, micro-batch 0): the loss: expected a scalar, got (2, 4)"},
             {no_loss, 1, "pipeline, 1F0 (stage 1, micro-batch 0): the loss: expected a scalar, got nothing"},
             {two_values, 1,
              "pipeline, 1F0 (stage 1, micro-batch 0): layer 'layers.3': expected 1 value, got 2"}}) {
      const auto errors = errors_with(change, weight, trains);
      CAPTURE(errors[0]);
      CAPTURE(errors[1]);
      CHECK(contains(errors[0], expected));
      CHECK(contains(errors[1], expected));
    }
}

TEST_CASE("pipeline, refused: a model without values") {
  const auto errors = test::errors_of(2, [](dist::World& world) {
    models::Dnn dnn(dnn_options);
    dist::Pipeline pipeline(dnn, dnn.to_layered_model(), {.mesh = dist::pipeline_mesh(world, 2)});
    pipeline.train_step(test::regression_batches(2));
  });
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK(contains(error, "nn::materialize"));
  }
}

TEST_CASE("pipeline, refused: ranks that cut the layers or order the actions differently") {
  const auto messages = [](const std::function<dist::PipelineOptions(dist::World&)>& options) {
    return test::errors_of(2, [&](dist::World& world) {
      models::Dnn dnn(dnn_options);
      dnn.to(f64);
      dist::Pipeline pipeline(dnn, dnn.to_layered_model(), options(world));
      nn::materialize(dnn, cpu(), 1);
      pipeline.train_step(test::regression_batches(4));
    });
  };
  const auto cut = [](dist::World& world) {
    return dist::PipelineOptions{
        .mesh = dist::pipeline_mesh(world, 2),
        .partition = dist::parse_partition_method(world.rank() == 1 ? "0,1,4" : "0,2,4")};
  };
  for (const std::string& message : messages(cut)) {
    CAPTURE(message);
    CHECK(contains(message, "stages of layers 0,"));
  }
  const auto order = [](dist::World& world) {
    return dist::PipelineOptions{
        .mesh = dist::pipeline_mesh(world, 2),
        .schedule = world.rank() == 1 ? dist::ScheduleKind::zb_h1 : dist::ScheduleKind::gpipe};
  };
  for (const std::string& message : messages(order))
    CHECK(contains(message, "step of 4 micro-batches, table"));
}

TEST_CASE("pipeline: a table with messages, and one with actions of sharding") {
  test::require_no_problems(2, [](dist::World& world) {
    std::vector<std::string> problems;
    const auto run = [&](const std::string& csv, bool is_sharded) {
      models::Dnn dnn(dnn_options);
      dnn.to(f64);
      dist::Pipeline pipeline(dnn, dnn.to_layered_model(),
                              {.mesh = dist::Mesh(world, {{"pipeline", 2}, {"shard", 1}}),
                               .table = [&](int) { return table(csv); },
                               .micro_batches = 1});
      if (is_sharded)
        pipeline.shard({.mesh = dist::Mesh(world, {{"pipeline", 2}, {"shard", 1}}),
                        .strategy = dist::Strategy::full_shard,
                        .units = dist::every<nn::Linear>()});
      nn::materialize(dnn, cpu(), 1);
      return pipeline.train_step(test::regression_batches(1));
    };
    const std::string plain = "0F0,0B0\n1F0,1B0\n",
                      with_messages = "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
                      with_sharding =
                          "0UNSHARD,0F0,0B0,0RESHARD,0REDUCE_GRAD\n"
                          "1UNSHARD,1F0,1B0,1RESHARD,1REDUCE_GRAD\n";
    const double expected = run(plain, false);
    if (run(with_messages, false) != expected) problems.push_back("with messages: another loss");
    if (run(with_sharding, true) != expected) problems.push_back("with sharding: another loss");
    expect<ConfigError>(problems,
                        "it has actions of sharding, and the stages of this pipeline are not sharded",
                        [&] { run(with_sharding, false); });
    return problems;
  });
}

TEST_CASE("pipeline, refused: an evaluation within a step") {
  test::require_no_problems(2, [](dist::World& world) {
    std::vector<std::string> problems;
    dist::Pipeline* of = nullptr;
    Cut cut(world, [&](nn::LayeredModel& model) {
      for (nn::LayerSpec& layer : model.layers)
        layer.run = [run = layer.run, &of, &problems](const nn::LayerValues& values) {
          expect<ConfigError>(problems, "runs already", [&] { of->evaluate(test::regression_batches(1)); });
          return run(values);
        };
    });
    of = &cut.pipeline;
    cut.pipeline.train_step(test::regression_batches(2));
    return problems;
  });
}
