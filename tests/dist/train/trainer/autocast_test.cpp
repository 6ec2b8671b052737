// A Trainer in half precision with f32 data: no cast in the task.
#include "autograd/autocast/autocast.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/view.h"
#include "dist/train/trainer/trainer.h"
#include "nn/functional.h"
#include "nn/layers/linear.h"
#include "nn/layers/normalization.h"
#include "nn/materialize.h"
#include "nn/mixed_precision.h"
#include "optim/rules/adam.h"
#include "tests/dist/fsdp/on_threads.h"

using namespace tessera;
using namespace tessera::training;

namespace {

constexpr int64_t samples = 16, batch_size = 4;

Tensor inputs() {
  Tensor x = Tensor::empty({samples, 6}, f32);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = std::sin(static_cast<float>(i * 5));
  return x;
}

Tensor targets() {
  Tensor y = Tensor::empty({samples, 2}, f32);
  for (int64_t i = 0; i < y.numel(); ++i) y.data<float>()[i] = std::cos(static_cast<float>(i * 3));
  return y;
}

struct Points : DataModule {
  LoaderSpec loader() const {
    return {std::make_shared<data::TensorDataset>(inputs(), targets()), {.batch_size = batch_size}};
  }
  std::optional<LoaderSpec> train_dataloader() override { return loader(); }
  std::optional<LoaderSpec> val_dataloader() override { return loader(); }
  std::optional<LoaderSpec> predict_dataloader() override { return loader(); }
};

struct Seen {
  std::vector<DType> autocast, inputs, targets, hidden, results;
  std::vector<double> losses;
};

/// A residual model: its own input meets results of bf16.
struct Regression : TaskOf<Regression> {
  nn::LayerNorm& norm = add<nn::LayerNorm>("norm", 6);
  nn::Linear& first = add<nn::Linear>("first", {.in = 6, .out = 6});
  nn::Linear& second = add<nn::Linear>("second", {.in = 6, .out = 2});
  DType own = f32;  // of a scope in the task itself
  Seen seen;

  Variable forward(const Variable& x) {
    const Variable hidden = first(norm(x));
    seen.hidden.push_back(hidden.dtype());
    return second(nn::relu(hidden) + x) + narrow(x, 1, 0, 2);
  }
  Variable loss(const data::Batch& batch) {
    seen.autocast.push_back(autocast_dtype());
    seen.inputs.push_back(batch.x.dtype());
    seen.targets.push_back(batch.y.dtype());
    const Variable result = (*this)(batch.x);
    seen.results.push_back(result.dtype());
    const Variable value = nn::mse_loss(result, batch.y);
    seen.losses.push_back(value.value().item());
    return value;
  }
  Variable training_step(const data::Batch& batch, int64_t) override {
    if (own == f32) return loss(batch);
    const AutocastScope autocast(own);
    return loss(batch);
  }
  void validation_step(const data::Batch& batch, int64_t) override { log("val_loss", loss(batch)); }
  Tensor predict_step(const data::Batch& batch, int64_t) override {
    seen.autocast.push_back(autocast_dtype());
    return (*this)(batch.x).value();
  }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::Adam>(parameters, 1e-2)};
  }
};

bool are_all(const std::vector<DType>& dtypes, DType expected) {
  for (const DType dtype : dtypes)
    if (dtype != expected) return false;
  return !dtypes.empty();
}

/// The losses of the training steps alone.
std::vector<double> trained(const TrainerOptions& options, DType own = f32) {
  struct Training : Points {
    std::optional<LoaderSpec> val_dataloader() override { return {}; }
  } data;
  Regression task;
  task.own = own;
  Trainer(options).fit(task, data);
  return task.seen.losses;
}

}  // namespace

TEST_CASE("trainer: in half precision batches keep f32, products take the low dtype") {
  for (const PrecisionMode precision : {PrecisionMode::bf16, PrecisionMode::f16}) {
    const DType low = precision == PrecisionMode::bf16 ? bf16 : f16;
    Points data;
    Regression task;
    Trainer trainer({.max_epochs = 2, .precision = precision});
    trainer.fit(task, data);
    const std::vector<Tensor> results = trainer.predict(task, data);
    const double last = trainer.logged().at("val_loss");
    CHECK(trainer.validate(task, data).at("val_loss") == last);
    CHECK(are_all(task.seen.autocast, low));
    CHECK(are_all(task.seen.inputs, f32));
    CHECK(are_all(task.seen.targets, f32));
    CHECK(are_all(task.seen.hidden, low));
    CHECK(are_all(task.seen.results, f32));  // a product of the low dtype, plus the input
    REQUIRE(results.size() == samples / batch_size);
    CHECK(results[0].dtype() == f32);
    CHECK(!is_autocast_enabled());
  }
}

TEST_CASE("trainer: its losses in bf16 are those of a loop with an AutocastScope") {
  Regression task;
  nn::materialize(task, cpu(), 42);
  nn::use_mixed_precision(task, bf16);
  optim::Adam adam(task.parameters(), 1e-2);
  for (int64_t step = 0; step < 2 * samples / batch_size; ++step) {
    const int64_t first = step * batch_size % samples;
    data::Batch batch;
    batch.set("x", inputs().narrow(0, first, batch_size));
    batch.set("y", targets().narrow(0, first, batch_size));
    Variable loss;
    {
      const AutocastScope autocast(bf16);
      loss = task.loss(batch);
    }
    loss.backward();
    adam.step();
    adam.zero_grad();
  }
  CHECK(trained({.max_epochs = 2, .precision = PrecisionMode::bf16}) == task.seen.losses);
  CHECK(trained({.max_epochs = 2}) != task.seen.losses);
}

TEST_CASE("trainer: a sharded model in bf16 computes as one that is not") {
  const std::vector<double> expected = trained({.max_epochs = 2, .precision = PrecisionMode::bf16});
  for (const char* strategy : {"fsdp", "deepspeed_stage_2"})
    test::require_no_problems(1, [&](dist::World& world) -> std::vector<std::string> {
      const std::vector<double> losses =
          trained({.max_epochs = 2, .strategy = strategy, .precision = PrecisionMode::bf16, .world = &world});
      if (losses != expected) return {text(strategy, ": losses differ")};
      return {};
    });
}

TEST_CASE("trainer: autocast over f32 parameters that are shards") {
  CHECK(trained({.max_epochs = 2}, bf16) != trained({.max_epochs = 2}));
  test::require_no_problems(2, [](dist::World& world) {
    std::vector<std::string> problems;
    const std::vector<double> expected = trained({.max_epochs = 2, .world = &world}, bf16);
    for (const char* strategy : {"deepspeed_stage_1", "deepspeed_stage_2", "fsdp"})
      if (trained({.max_epochs = 2, .strategy = strategy, .world = &world}, bf16) != expected)
        problems.push_back(text(strategy, ": losses differ from those of ddp"));
    return problems;
  });
}
