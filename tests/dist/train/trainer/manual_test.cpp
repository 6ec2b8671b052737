// Tasks that take their steps themselves: two parts with an optimizer each, as a GAN has them.
#include <doctest/doctest.h>

#include <cmath>
#include <mutex>

#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/reduction.h"
#include "dist/train/callbacks/model_checkpoint.h"
#include "dist/train/trainer/trainer.h"
#include "nn/functional.h"
#include "nn/layers/dropout.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/clip.h"
#include "optim/rules/adam.h"
#include "optim/schedules/decay.h"
#include "tensor/error.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using namespace tessera::training;

namespace {

std::shared_ptr<const data::Dataset> points(int64_t n) {
  Tensor noise = Tensor::empty({n, 3}, f32), real = Tensor::empty({n, 2}, f32);
  for (int64_t i = 0; i < noise.numel(); ++i) noise.data<float>()[i] = std::sin(static_cast<float>(i * 5));
  for (int64_t i = 0; i < real.numel(); ++i) real.data<float>()[i] = std::cos(static_cast<float>(i * 3));
  return std::make_shared<data::TensorDataset>(noise, real);
}

struct Points : DataModule {
  int64_t batch_size = 4;
  std::optional<LoaderSpec> train_dataloader() override {
    return LoaderSpec{points(24), {.batch_size = batch_size, .shuffle = true}};
  }
};

struct Generator : nn::Layer<Generator> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 3, .out = 8});
  nn::Linear& second = add<nn::Linear>("second", {.in = 8, .out = 2});
  Variable forward(const Variable& noise) { return second(tanh(first(noise))); }
};

struct Critic : nn::Layer<Critic> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 2, .out = 8});
  nn::Dropout& drop = add<nn::Dropout>("drop", 0.25);
  nn::Linear& second = add<nn::Linear>("second", {.in = 8, .out = 1});
  Variable forward(const Variable& x) { return second(drop(tanh(first(x)))); }
};

OptimizerSetup adam(const ParameterList& parameters) {
  return {std::make_unique<optim::Adam>(parameters, 1e-2), optim::step_decay({.step_size = 2, .gamma = 0.5})};
}

/// A Wasserstein GAN: the critic takes `critic_steps` steps for one of the generator.
struct Gan : TaskOf<Gan> {
  Generator& generator = add<Generator>("generator");
  Critic& critic = add<Critic>("critic");
  int critic_steps = 2;
  std::vector<double> losses;
  Variable forward(const Variable& noise) { return generator(noise); }
  bool automatic_optimization() const override { return false; }
  std::vector<Part> configure_parts() override {
    return {{"critic", critic, adam, 0.5}, {"generator", generator, adam}};
  }
  Variable critic_loss(const data::Batch& batch) {
    return mean(critic(generator(batch.x).detach())) - mean(critic(batch.y));
  }
  Variable generator_loss(const data::Batch& batch) { return -mean(critic(generator(batch.x))); }
  Variable training_step(const data::Batch& batch, int64_t) override {
    ManualOptimization& manual = trainer().manual();
    for (int i = 0; i < critic_steps; ++i)
      losses.push_back(manual.optimize(0, [&] { return critic_loss(batch); }).value().item());
    losses.push_back(manual.optimize(1, [&] { return generator_loss(batch); }).value().item());
    return {};
  }
};

std::vector<double> losses_of(TrainerOptions options, Gan&& gan = Gan()) {
  Points data;
  if (options.world) data.batch_size = 4 / options.world->size();
  Trainer trainer(std::move(options));
  trainer.fit(gan, data);
  return gan.losses;
}

bool are_near(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= tolerance)) return false;
  return true;
}

}  // namespace

TEST_CASE("manual optimization: a GAN has the losses of a hand-written loop, to the bit") {
  const std::vector<double> losses = losses_of({.max_epochs = 2});

  Gan gan;
  nn::materialize(gan, cpu(), 42);
  optim::Adam critic_adam(gan.critic.parameters(), 1e-2), generator_adam(gan.generator.parameters(), 1e-2);
  optim::Schedule critic_rates = optim::step_decay({.step_size = 2, .gamma = 0.5}),
                  generator_rates = critic_rates;
  data::DataLoader loader(points(24), {.batch_size = 4, .shuffle = true, .seed = 42});
  std::vector<double> expected;
  for (int epoch = 0; epoch < 2; ++epoch)
    for (const data::Batch& batch : loader) {
      for (int i = 0; i < 2; ++i) {
        critic_rates.apply(critic_adam);
        const Variable loss = gan.critic_loss(batch);
        expected.push_back(loss.value().item());
        loss.backward();
        optim::clip_grad_norm(gan.critic.parameters(), 0.5);
        critic_adam.step();
        gan.critic.zero_grad();
        critic_rates.advance();
      }
      generator_rates.apply(generator_adam);
      const Variable loss = gan.generator_loss(batch);
      expected.push_back(loss.value().item());
      loss.backward();
      generator_adam.step();
      gan.zero_grad();  // the critic's too, which the generator's loss made
      generator_rates.advance();
    }
  CHECK(losses == expected);
}

TEST_CASE("manual optimization: a run resumed at any step has the same bits, in each precision") {
  for (const PrecisionMode precision : {PrecisionMode::f32, PrecisionMode::bf16, PrecisionMode::f16}) {
    const TemporaryFolder folder;
    const auto run = [&](int64_t steps, const std::string& name, const std::string& resume) {
      return losses_of({.max_steps = steps,
                        .precision = precision,
                        .accumulate = 2,
                        .resume = resume,
                        .callbacks = {std::make_shared<ModelCheckpoint>(
                            ModelCheckpointOptions{.folder = name, .every_steps = 1})}});
    };
    const std::vector<double> whole = run(6, folder / "whole", "");
    REQUIRE(whole.size() == 36);
    for (const int64_t stop : {1, 3, 4}) {
      const std::string name = folder / std::to_string(stop);
      run(stop, name, "");
      CHECK(run(6, name, name) == std::vector<double>(whole.begin() + 6 * stop, whole.end()));
    }
  }
}

TEST_CASE("manual optimization: two ranks have the losses of one, and resume each other's runs") {
  const TemporaryFolder folder;
  for (const char* strategy : {"ddp", "deepspeed_stage_1", "deepspeed_stage_2", "fsdp"}) {
    CAPTURE(std::string(strategy));
    const auto run = [&](int64_t steps, const std::string& name, const std::string& resume,
                         dist::World* world) {
      return losses_of({.max_steps = steps,
                        .strategy = world ? strategy : "auto",
                        .accumulate = 2,
                        .resume = resume,
                        .callbacks = {std::make_shared<ModelCheckpoint>(
                            ModelCheckpointOptions{.folder = folder / name, .every_steps = 1})},
                        .world = world});
    };
    const std::string name = strategy;
    const std::vector<double> alone = run(5, name + "-alone", "", nullptr);
    std::vector<double> means(alone.size(), 0);
    std::mutex mutex;
    test::require_no_problems(2, [&](dist::World& world) -> std::vector<std::string> {
      const std::vector<double> whole = run(5, name + "-whole", "", &world);
      run(2, name + "-run", "", &world);
      const std::vector<double> resumed = run(5, name + "-run", folder / (name + "-run"), &world);
      const std::lock_guard lock(mutex);
      for (size_t i = 0; i < whole.size(); ++i) means[i] += whole[i] / 2;
      if (resumed != std::vector<double>(whole.begin() + 12, whole.end())) return {"other bits"};
      return {};
    });
    CHECK(are_near(means, alone, 1e-6));
    CHECK(are_near(run(7, name + "-a", folder / (name + "-run"), nullptr),
                   run(7, name + "-b", folder / (name + "-alone"), nullptr), 1e-5));
  }
}

TEST_CASE("manual optimization: in half precision over ranks a resumed run has the same bits") {
  const TemporaryFolder folder;
  for (const PrecisionMode precision : {PrecisionMode::bf16, PrecisionMode::f16})
    test::require_no_problems(2, [&](dist::World& world) -> std::vector<std::string> {
      const auto run = [&](int64_t steps, const std::string& name, const std::string& resume) {
        return losses_of({.max_steps = steps,
                          .strategy = "fsdp",
                          .precision = precision,
                          .resume = resume,
                          .callbacks = {std::make_shared<ModelCheckpoint>(
                              ModelCheckpointOptions{.folder = name, .every_steps = 1})},
                          .world = &world});
      };
      const std::string name = folder / std::to_string(static_cast<int>(precision));
      const std::vector<double> whole = run(4, name + "-whole", "");
      run(2, name, "");
      if (run(4, name, name) == std::vector<double>(whole.begin() + 6, whole.end())) return {};
      return {"other bits"};
    });
}

TEST_CASE("manual optimization: parts are frozen in turn, and their flags restored") {
  struct Flags : Gan {
    std::vector<std::pair<bool, bool>> seen;
    Variable training_step(const data::Batch& batch, int64_t) override {
      ManualOptimization& manual = trainer().manual();
      for (const int part : {0, 1}) {
        manual.begin(part);
        seen.emplace_back(critic.first.weight.requires_grad(), generator.first.weight.requires_grad());
        manual.backward(part, part == 0 ? critic_loss(batch) : generator_loss(batch));
        CHECK(critic.first.weight.grad().defined() == (part == 0));
        CHECK(generator.first.weight.grad().defined() == (part == 1));
        manual.step(part);
      }
      return {};
    }
  };
  Points data;
  Flags gan;
  gan.critic.second.set_requires_grad(false);
  Trainer({.max_steps = 1}).fit(gan, data);
  CHECK(gan.seen == std::vector<std::pair<bool, bool>>{{true, false}, {false, true}});
  CHECK(gan.critic.first.weight.requires_grad());
  CHECK(gan.generator.first.weight.requires_grad());
  CHECK(!gan.critic.second.weight.requires_grad());
}

TEST_CASE("manual optimization: by default there is one part, and callbacks are called around it") {
  struct One : TaskOf<One> {
    nn::Linear& out = add<nn::Linear>("out", {.in = 3, .out = 2});
    std::vector<double> losses;
    bool is_manual = false;
    Variable forward(const Variable& x) { return out(x); }
    bool automatic_optimization() const override { return !is_manual; }
    Variable training_step(const data::Batch& batch, int64_t) override {
      const auto loss = [&] { return nn::mse_loss((*this)(batch.x), batch.y); };
      const Variable value = is_manual ? trainer().manual().optimize(0, loss) : loss();
      losses.push_back(value.value().item());
      return value;
    }
    OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
      return {std::make_unique<optim::Adam>(parameters, 1e-2)};
    }
  };
  struct Trace : Callback {
    std::string calls;
    void on_train_batch_start(Trainer&, Task&, const data::Batch&, int64_t) override { calls += "<"; }
    void on_before_backward(Trainer&, Task&, const Variable&) override { calls += "b"; }
    void on_after_backward(Trainer&, Task&) override { calls += "a"; }
    void on_before_optimizer_step(Trainer& trainer, Task&) override {
      CHECK(trainer.engine().optimizer().parameters().size() == 2);
      calls += "s";
    }
    void on_train_batch_end(Trainer&, Task&, const data::Batch&, int64_t) override { calls += ">"; }
  };
  Points data;
  One automatic, manual;
  manual.is_manual = true;
  const auto trace = std::make_shared<Trace>();
  Trainer({.max_steps = 4, .accumulate = 2, .gradient_clip = 0.1}).fit(automatic, data);
  Trainer({.max_steps = 4, .accumulate = 2, .gradient_clip = 0.1, .callbacks = {trace}}).fit(manual, data);
  CHECK(manual.losses == automatic.losses);
  CHECK(trace->calls == "<ba><bas><ba><bas><ba><bas><ba><bas>");
  const TemporaryFolder folder;
  for (const char* strategy : {"ddp", "fsdp"})
    test::require_no_problems(2, [&](dist::World& world) -> std::vector<std::string> {
      const auto run = [&](bool is_manual, int64_t steps, const std::string& name,
                           const std::string& resume) {
        Points own;
        own.batch_size = 2;
        One task;
        task.is_manual = is_manual;
        Trainer({.max_steps = steps,
                 .strategy = strategy,
                 .accumulate = 2,
                 .gradient_clip = 0.1,
                 .resume = resume,
                 .callbacks = {std::make_shared<ModelCheckpoint>(
                     ModelCheckpointOptions{.folder = name, .every_steps = 1})},
                 .world = &world})
            .fit(task, own);
        return task.losses;
      };
      const std::string name = folder / strategy;
      const std::vector<double> whole = run(true, 4, name + "-manual", "");
      if (whole != run(false, 4, name + "-automatic", "")) return {"other losses than of automatic steps"};
      run(true, 2, name + "-run", "");
      if (run(true, 4, name + "-run", name + "-run") != std::vector<double>(whole.begin() + 4, whole.end()))
        return {"other bits after a resume"};
      return {};
    });
}

TEST_CASE("manual optimization: faults name the part") {
  struct Faulty : Gan {
    std::vector<Part> parts;
    std::function<void(Faulty&, const data::Batch&)> steps;
    std::vector<Part> configure_parts() override { return parts; }
    Variable training_step(const data::Batch& batch, int64_t) override {
      steps(*this, batch);
      return {};
    }
  };
  const auto error_of_parts = [](std::function<std::vector<Part>(Faulty&)> parts) {
    Points data;
    Faulty gan;
    gan.parts = parts(gan);
    return message_of<ConfigError>([&] { Trainer({.max_steps = 1}).fit(gan, data); });
  };
  CHECK(error_of_parts([](Faulty&) { return std::vector<Part>(); }) ==
        "Task::configure_parts: expected parts, got none");
  CHECK(contains(error_of_parts([](Faulty& g) {
                   return std::vector<Part>{{"a", g.critic, adam}, {"a", g.generator, adam}};
                 }),
                 "got 'a' twice"));
  CHECK(contains(error_of_parts([](Faulty& g) {
                   return std::vector<Part>{{"a", g.critic, adam}, {"b", g, adam}};
                 }),
                 "got 'critic.first.weight' in 'a' and in 'b'"));
  CHECK(contains(error_of_parts([](Faulty& g) {
                   return std::vector<Part>{{"a", g.critic, nullptr}};
                 }),
                 "part 'a': expected a function that makes the optimizer"));
  const auto error_of_steps = [](std::function<void(Faulty&, const data::Batch&)> steps, int64_t accumulate) {
    Points data;
    Faulty gan;
    gan.parts = gan.Gan::configure_parts();
    gan.steps = std::move(steps);
    return message_of<Error>([&] { Trainer({.max_steps = 1, .accumulate = accumulate}).fit(gan, data); });
  };
  CHECK(error_of_steps([](Faulty& g, const data::Batch&) { g.trainer().manual().begin(2); }, 1) ==
        "ManualOptimization: expected a part in [0, 2), got 2");
  CHECK(contains(error_of_steps(
                     [](Faulty& g, const data::Batch& batch) {
                       g.trainer().manual().backward(1, g.generator_loss(batch));
                     },
                     1),
                 "expected `begin` of part 'generator'"));
  int64_t calls = 0;
  CHECK(error_of_steps(
            [&](Faulty& g, const data::Batch& batch) {
              if (calls++ == 0) g.trainer().manual().optimize(1, [&] { return g.generator_loss(batch); });
            },
            2) ==
        "Trainer: part 'generator': expected a multiple of 2 calls of `step` (accumulate) in a step, got 1 "
        "left");
  struct Automatic : Gan {
    bool automatic_optimization() const override { return true; }
    OptimizerSetup configure_optimizers(const ParameterList& parameters) override { return adam(parameters); }
  };
  Points data;
  Automatic automatic;
  CHECK(contains(message_of<ConfigError>([&] { Trainer({.max_steps = 1}).fit(automatic, data); }),
                 "expected a fit of a task whose automatic_optimization() is false"));
}

TEST_CASE("manual optimization: the trainer's device and log, and checkpoints in the background") {
  struct One : TaskOf<One> {
    nn::Linear& out = add<nn::Linear>("out", {.in = 3, .out = 2});
    Variable forward(const Variable& x) { return out(x); }
    bool automatic_optimization() const override { return false; }
    Variable training_step(const data::Batch& batch, int64_t) override {
      return trainer().manual().optimize(0, [&] { return nn::mse_loss((*this)(batch.x), batch.y); });
    }
    OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
      return {std::make_unique<optim::Adam>(parameters, 1e-2)};
    }
  };
  Points data;
  One planned;
  Trainer({.max_steps = 2, .device = meta()}).fit(planned, data);
  CHECK(planned.out.parameters()[0].variable.value().is_meta());

  const TemporaryFolder folder;
  std::mutex mutex;
  std::vector<std::string> lines;
  const auto run = [&](const std::string& name, bool in_background, const std::string& resume,
                       dist::World* world) {
    Points own;
    own.batch_size = world ? 2 : 4;
    One task;
    Trainer({.max_steps = 2,
             .strategy = world ? "fsdp" : "auto",
             .resume = resume,
             .callbacks = {std::make_shared<ModelCheckpoint>(
                 ModelCheckpointOptions{.folder = name, .every_steps = 2, .in_background = in_background})},
             .world = world,
             .log = Logger([&](const LogRecord& record) {
               const std::lock_guard lock(mutex);
               lines.push_back(record.message);
             })})
        .fit(task, own);
  };
  run(folder / "alone", false, "", nullptr);
  CHECK(lines == std::vector<std::string>{"step 2 is saved: " + folder / "alone/step-00000002"});
  lines.clear();
  test::require_no_problems(2, [&](dist::World& world) -> std::vector<std::string> {
    run(folder / "background", true, "", &world);
    return {};
  });
  CHECK(lines.empty());  // of a save that was not waited for
  run(folder / "next", false, folder / "background", nullptr);
  CHECK(lines[0] == "step 2 is loaded: " + folder / "background");
}
