#include "dist/train/accelerate/accelerator.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "dist/comm/interface/errors.h"
#include "nn/functional.h"
#include "nn/layer.h"
#include "nn/layers/linear.h"
#include "optim/rules/adam.h"
#include "optim/rules/sgd.h"
#include "tensor/ops/creation/creation.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/support/environment.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using training::Accelerator;

namespace {

struct Net : nn::Layer<Net> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 4, .out = 6});
  nn::Linear& second = add<nn::Linear>("second", {.in = 6, .out = 3});
  Variable forward(const Variable& x) { return second(tanh(first(x))); }
};

/// 33 points with classes: one more than whole batches of 4 hold.
std::shared_ptr<const data::Dataset> points() {
  Tensor x = Tensor::empty({33, 4}, f32), y = Tensor::empty({33}, i64);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = std::sin(static_cast<float>(i * 3));
  for (int64_t i = 0; i < 33; ++i) y.data<int64_t>()[i] = i * i % 3;
  return std::make_shared<data::TensorDataset>(x, y);
}

data::DataLoader loader_of(int64_t batch_size) {
  return data::DataLoader(points(), {.batch_size = batch_size, .shuffle = true, .seed = 42});
}

training::OptimizerMaker adam() {
  return [](const ParameterList& p) { return std::make_unique<optim::Adam>(p, 1e-2); };
}

/// The values of a rank's parameters, which may be shards.
std::vector<float> values_of(const nn::Module& module) {
  std::vector<float> values;
  for (const auto& p : module.parameters()) {
    const Tensor value = p.variable.value().contiguous();
    values.insert(values.end(), value.data<float>(), value.data<float>() + value.numel());
  }
  return values;
}

/// The loop of Accelerate's documentation, until `steps` updates. `clip`: 0 for none.
template <class Prepared>
void train(Accelerator& accelerator, Prepared& prepared, int64_t steps, double clip = 0) {
  auto& [model, optimizer, loader] = prepared;
  while (accelerator.engine().global_steps() < steps)
    for (auto& [x, y] : loader) {
      if (accelerator.engine().global_steps() == steps) break;
      const auto micro_batch = accelerator.accumulate();
      const Variable loss = nn::cross_entropy(model(x), y);
      accelerator.backward(loss);
      if (clip > 0) accelerator.clip_grad_norm(clip);
      optimizer.step();
      optimizer.zero_grad();
    }
}

/// The same run by the engine.
template <class Training>
void train_by_engine(Training& training, int64_t steps) {
  auto& [engine, optimizer, loader, schedule] = training;
  while (engine.global_steps() < steps)
    for (auto& [x, y] : *loader) {
      if (engine.global_steps() == steps) break;
      const Variable loss = nn::cross_entropy(engine(x), y);
      engine.backward(loss);
      engine.step();
    }
}

const std::string file = R"({
  "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
  "gradient_clipping": 0.5, // of all shards
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-2}},
  "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 0.01, "warmup_num_steps": 3}},
})";

std::string replaced(std::string text, const std::string& part, const std::string& by) {
  return text.replace(text.find(part), part.size(), by);
}

}  // namespace

TEST_CASE("Accelerator: weights after 5 steps are the engine's, on one rank and sharded over two") {
  for (const int ranks : {1, 2}) {
    CAPTURE(ranks);
    test::require_no_problems(ranks, [&](dist::World& world) -> std::vector<std::string> {
      const dist::Strategy strategy =
          world.size() > 1 ? dist::Strategy::full_shard : dist::Strategy::no_shard;
      Net net, other;
      Accelerator accelerator({.gradient_accumulation_steps = 2, .strategy = strategy, .world = &world});
      auto prepared = accelerator.prepare(net, adam(), loader_of(4));
      train(accelerator, prepared, 5, /*clip=*/0.05);

      training::TrainingConfig config;
      config.micro_batch_size = 4;
      config.accumulation_steps = 2;
      config.gradient_clip = 0.05;
      config.strategy = strategy;
      auto by_engine = training::initialize(
          other, {.config = config, .training_data = points(), .optimizer = adam(), .world = &world});
      train_by_engine(by_engine, 5);
      std::vector<std::string> problems;
      if (values_of(net) != values_of(other)) problems.push_back("weights differ");
      if (accelerator.grad_norm() != by_engine.engine.global_grad_norm()) problems.push_back("norms differ");
      if (accelerator.grad_norm() <= 0.05) problems.push_back("nothing was clipped");
      if (accelerator.engine().micro_steps() != 10) problems.push_back("not 10 micro-batches");
      return problems;
    });
  }
}

TEST_CASE("Accelerator: a plugin's configuration gives optimizer, schedule and clipping") {
  Net net, other;
  Accelerator accelerator({.gradient_accumulation_steps = 2,
                           .deepspeed_plugin = training::DeepSpeedPlugin{training::JsonText{file}}});
  CHECK(accelerator.uses_deepspeed());
  auto prepared = accelerator.prepare(net, training::DummyOptim{}, loader_of(4));
  train(accelerator, prepared, 5);

  training::TrainingConfig defaults;
  defaults.micro_batch_size = 4;
  defaults.accumulation_steps = 2;
  auto by_engine = training::initialize(
      other, {.config = training::JsonText{file}, .defaults = defaults, .training_data = points()});
  train_by_engine(by_engine, 5);
  CHECK(values_of(net) == values_of(other));
  CHECK(accelerator.engine().config().gradient_clip == 0.5);
  CHECK(prepared.optimizer.optimizer().name() == "AdamW");

  // A DummyScheduler stands for the schedule of the configuration, and is an error without one.
  Net third, fourth;
  Accelerator scheduled({.gradient_accumulation_steps = 2,
                         .deepspeed_plugin = training::DeepSpeedPlugin{training::JsonText{file}}});
  auto again = scheduled.prepare(third, training::DummyOptim{}, loader_of(4), training::DummyScheduler{});
  train(scheduled, again, 5);
  CHECK(values_of(third) == values_of(net));
  const std::string unscheduled = R"({"optimizer": {"type": "AdamW", "params": {"lr": 1e-2}}})";
  Accelerator without({.deepspeed_plugin = training::DeepSpeedPlugin{training::JsonText{unscheduled}}});
  CHECK(message_of<ConfigError>([&] {
          without.prepare(fourth, training::DummyOptim{}, loader_of(4), training::DummyScheduler{});
        }) ==
        "Accelerator::prepare: expected a scheduler in the plugin's configuration, got none; leave "
        "DummyScheduler out");
}

TEST_CASE("Accelerator: clip_grad_norm holds for one update, then the configuration's holds again") {
  Net net;
  Accelerator accelerator({.deepspeed_plugin = training::DeepSpeedPlugin{training::JsonText{file}}});
  auto [model, optimizer, loader] = accelerator.prepare(net, training::DummyOptim{}, loader_of(4));
  accelerator.backward(nn::cross_entropy(model(Tensor::zeros({4, 4}, f32)), Tensor::zeros({4}, i64)));
  accelerator.clip_grad_norm(0.25);
  CHECK(accelerator.engine().config().gradient_clip == 0.25);
  optimizer.step();
  CHECK(accelerator.engine().config().gradient_clip == 0.5);
}

TEST_CASE("Accelerator: the environment asks for a configuration of DeepSpeed") {
  const Environment use("ACCELERATE_USE_DEEPSPEED", "true");
  {
    const Environment unset("ACCELERATE_DEEPSPEED_CONFIG_FILE", nullptr);
    CHECK(message_of<ConfigError>([] { Accelerator accelerator; }) ==
          "ACCELERATE_USE_DEEPSPEED is true: expected ACCELERATE_DEEPSPEED_CONFIG_FILE, the path of a "
          "configuration, or AcceleratorOptions::deepspeed_plugin");
    Accelerator with_plugin({.deepspeed_plugin = training::DeepSpeedPlugin{training::JsonText{file}}});
    CHECK(with_plugin.uses_deepspeed());
  }
  const TemporaryFolder folder;
  folder.write("ds.json", file);
  const std::string path = folder / "ds.json";
  const Environment named("ACCELERATE_DEEPSPEED_CONFIG_FILE", path.c_str());
  Net net;
  Accelerator accelerator;
  auto prepared = accelerator.prepare(net, training::DummyOptim{}, loader_of(4));
  CHECK(accelerator.engine().optimizer().name() == "AdamW");
  const Environment wrong("ACCELERATE_USE_DEEPSPEED", "yes");
  CHECK(message_of<ConfigError>([] { Accelerator other; }) ==
        "ACCELERATE_USE_DEEPSPEED: expected true or false, got 'yes'");
  const Environment off("ACCELERATE_USE_DEEPSPEED", "false");
  CHECK(!Accelerator().uses_deepspeed());
}

TEST_CASE("Accelerator: each wrong use is an error that says what to do") {
  Net net, second;
  Accelerator accelerator({.gradient_accumulation_steps = 2});
  const Variable loss = Variable::leaf(ops::full({}, 1.0, f32));
  const auto refusal = [](const auto& body) { return message_of<ConfigError>(body); };
  const std::string no_prepare = "Accelerator: expected `prepare` before this call";
  CHECK(refusal([&] { accelerator.backward(loss); }) == no_prepare);
  CHECK(refusal([&] { accelerator.clip_grad_norm(1); }) == no_prepare);
  CHECK(refusal([&] { static_cast<void>(accelerator.accumulate()); }) == no_prepare);
  CHECK(refusal([&] { accelerator.save_state("nowhere"); }) == no_prepare);
  CHECK(refusal([&] { accelerator.print("x"); }) ==
        "Accelerator::print: expected a stream (AcceleratorOptions::out), got none");
  CHECK(refusal([] { Accelerator negative({.gradient_accumulation_steps = -1}); }) ==
        "Accelerator: gradient_accumulation_steps: expected 0 or more, got -1");
  CHECK(contains(refusal([&] { accelerator.prepare(net, training::DummyOptim{}, loader_of(4)); }),
                 "expected an optimizer, from the program or the configuration"));

  auto [model, optimizer, loader] = accelerator.prepare(net, adam(), loader_of(4));
  CHECK(contains(refusal([&] { accelerator.prepare(second, adam(), loader_of(4)); }),
                 "expected one model, got a second one"));
  CHECK(refusal([&, &o = optimizer] { o.step(); }) ==
        "optimizer.step(): expected accelerator.backward(loss) before it");
  CHECK(contains(refusal([&] { accelerator.clip_grad_norm(1); }), "expected it between backward and"));
  optimizer.zero_grad();  // before a forward it is allowed
  const Tensor x = Tensor::zeros({4, 4}, f32), y = Tensor::zeros({4}, i64);
  const auto loss_of = [&, &m = model] { return nn::cross_entropy(m(x), y); };
  accelerator.backward(loss_of());
  CHECK(contains(refusal([&, &o = optimizer] { o.zero_grad(); }), "expected it after optimizer.step()"));
  CHECK(contains(refusal([&] { accelerator.backward(loss_of()); }), "of several losses, add them up"));
  CHECK(contains(refusal([&] { static_cast<void>(accelerator.accumulate()); }),
                 "expected optimizer.step() at the end"));
  CHECK(contains(refusal([&] { accelerator.clip_grad_norm(-1); }), "expected 0 or more, got -1"));
  optimizer.step();
  CHECK(contains(refusal([&] { accelerator.save_state("nowhere"); }), "expected the end of a step"));
  {
    const auto micro_batch = accelerator.accumulate();
    CHECK(contains(refusal([&] { static_cast<void>(accelerator.accumulate()); }),
                   "another micro-batch is open"));
  }
  CHECK(contains(message_of<ValueError>([&] { accelerator.backward(Variable(x)); }),
                 "expected a loss of one element"));
}

TEST_CASE("Accelerator: a configuration with another micro-batch than the loader's is refused") {
  Net net;
  const std::string json = replaced(file, "gpu\": \"auto\"", "gpu\": 8");
  Accelerator accelerator({.deepspeed_plugin = training::DeepSpeedPlugin{training::JsonText{json}}});
  CHECK(
      message_of<ConfigError>([&] { accelerator.prepare(net, training::DummyOptim{}, loader_of(4)); }) ==
      "Accelerator::prepare: the configuration's train_micro_batch_size_per_gpu is 8: expected the loader's "
      "batch_size 4, or \"auto\"");
}

TEST_CASE("Accelerator: sync_gradients says whether a micro-batch is the last one of its step") {
  Net net;
  Accelerator accelerator({.gradient_accumulation_steps = 3});
  auto [model, optimizer, loader] = accelerator.prepare(net, adam(), loader_of(4));
  std::string seen;
  for (auto& [x, y] : loader) {
    const Variable loss = nn::cross_entropy(model(x), y);
    seen += accelerator.sync_gradients() ? 'y' : 'n';
    accelerator.backward(loss);
    optimizer.step();
    seen += accelerator.sync_gradients() ? 'y' : 'n';
  }
  CHECK(seen == "nnnnyynnnnyynnnn");
  CHECK(accelerator.engine().global_steps() == 2);
}

TEST_CASE("Accelerator: ranks gather their rows, and the main process prints") {
  std::ostringstream out;
  test::require_no_problems(3, [&](dist::World& world) -> std::vector<std::string> {
    Accelerator accelerator({.world = &world, .out = &out});
    std::vector<std::string> problems;
    const auto rank = static_cast<float>(world.rank());
    const Tensor rows = accelerator.gather(ops::full({2, 2}, rank, f32));
    if (rows.shape() != Shape{6, 2}) problems.push_back("the shape is wrong");
    for (int64_t i = 0; i < 12; ++i)
      if (static_cast<int64_t>(rows.data<float>()[i]) != i / 4) problems.push_back("a row is wrong");
    const Tensor numbers = accelerator.gather(Variable(ops::full({}, rank, f32)));
    if (numbers.shape() != Shape{3} || numbers.data<float>()[2] != 2) problems.push_back("numbers are wrong");
    accelerator.print("rank ", world.rank(), " of ", accelerator.num_processes());
    accelerator.wait_for_everyone();
    if (accelerator.is_main_process() != (world.rank() == 0)) problems.push_back("is_main_process is wrong");
    return problems;
  });
  CHECK(out.str() == "rank 0 of 3\n");
  CHECK(Accelerator().gather(ops::full({2}, 1.0, f32)).shape() == Shape{2});
}

TEST_CASE("Accelerator: gather refuses shapes that differ by rank") {
  CHECK(contains(message_of<dist::CommunicationError>([] {
                   dist::launch(
                       [](dist::World& world) {
                         Accelerator accelerator({.world = &world});
                         accelerator.gather(Tensor::zeros({1 + world.rank()}, f32));
                       },
                       {.virtual_ranks = 2});
                 }),
                 "all_gather"));
}

TEST_CASE("Accelerator: a state that is loaded continues with the same weights") {
  const TemporaryFolder folder;
  Net straight, first, second;
  const auto run = [&](Net& net, int64_t until, const std::string& load, const std::string& save) {
    Accelerator accelerator({.seed = 7});
    auto prepared = accelerator.prepare(net, adam(), loader_of(4));
    if (!load.empty()) accelerator.load_state(load);
    prepared.loader.set_epoch(accelerator.engine().global_steps() / 8);  // of 33 points in batches of 4
    train(accelerator, prepared, until);
    if (!save.empty()) accelerator.save_state(save);
  };
  run(straight, 16, "", "");
  run(first, 8, "", folder.path());
  run(second, 16, folder.path(), "");
  CHECK(values_of(second) == values_of(straight));
  CHECK(values_of(first) != values_of(straight));
}

TEST_CASE("Accelerator: a step that loss scaling skips is reported, and logged") {
  Net net;
  std::ostringstream out;
  Accelerator accelerator(
      {.mixed_precision = training::PrecisionMode::f16, .log = training::Logger(training::stream_sink(out))});
  auto [model, optimizer, loader] = accelerator.prepare(net, adam(), loader_of(4));
  for (const double factor : {1e30, 1e-3}) {
    for (auto& [x, y] : loader) {
      accelerator.backward(cast(nn::cross_entropy(model(x), y), f32) * factor);
      break;
    }
    optimizer.step();
    CHECK(optimizer.step_was_skipped() == (factor > 1));
  }
  CHECK(out.str() ==
        "[warning] train.engine: step 1 is skipped: gradients are not finite; the loss scale is 65536\n");
}
