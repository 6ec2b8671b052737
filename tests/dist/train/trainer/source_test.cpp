// Training on batches by step: a GPT on random windows of a text.
#include <doctest/doctest.h>

#include "data/text/windows.h"
#include "dist/train/callbacks/model_checkpoint.h"
#include "dist/train/trainer/trainer.h"
#include "models/gpt.h"
#include "nn/materialize.h"
#include "nn/mixed_precision.h"
#include "optim/clip.h"
#include "optim/gradient_squares.h"
#include "optim/parameter_groups.h"
#include "optim/rules/adam.h"
#include "optim/schedules/cosine.h"
#include "tensor/error.h"
#include "tensor/random/random_context.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using namespace tessera::training;

namespace {

constexpr uint64_t seed = 7;
constexpr int64_t batch_size = 8, block = 12;

models::GptOptions model_options() {
  return {.vocabulary = 29, .block_size = block, .layers = 2, .heads = 2, .width = 16, .dropout = 0.1};
}

data::Tokens text_tokens() {
  std::vector<uint16_t> ids(500);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<uint16_t>((i * i + i / 7) % 29);
  return {std::move(ids), "a text"};
}

std::shared_ptr<const data::BatchSource> windows(int rank, int world_size) {
  return std::make_shared<data::RandomWindows>(
      text_tokens(),
      data::RandomWindows::Options{
          .block = block, .batch_size = batch_size, .seed = seed, .rank = rank, .world_size = world_size});
}

std::unique_ptr<optim::AdamW> adam(const ParameterList& parameters) {
  return std::make_unique<optim::AdamW>(optim::decay_groups(
      parameters, optim::AdamWOptions{.lr = 1e-2, .betas = {0.9, 0.99}, .weight_decay = 0.1}));
}

optim::Schedule rates() {
  return optim::cosine({.lr = 1e-2, .min_lr = 1e-3, .warmup_steps = 2, .steps = 6});
}

struct Language : Task {
  models::Gpt gpt{model_options()};
  std::vector<double> losses;
  std::vector<Shape> shapes;
  nn::Module& module() override { return gpt; }
  Variable training_step(const data::Batch& batch, int64_t) override {
    const Variable loss = gpt.loss(batch.x, batch.y);
    losses.push_back(loss.value().item());
    shapes.push_back(batch.x.shape());
    return loss;
  }
  void validation_step(const data::Batch& batch, int64_t) override {
    log("val_loss", gpt.loss(batch.x, batch.y));
  }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {adam(parameters), rates()};
  }
};

struct Text : DataModule {
  SourceMaker training, validation;
  explicit Text(SourceMaker training = windows, SourceMaker validation = {})
      : training(std::move(training)), validation(std::move(validation)) {}
  std::optional<LoaderSpec> train_dataloader() override { return LoaderSpec{.source = training}; }
  std::optional<LoaderSpec> val_dataloader() override {
    if (!validation) return std::nullopt;
    return LoaderSpec{.source = validation};
  }
};

/// The losses of the micro-batches of a loop without a trainer, as a program writes it for one model.
std::vector<double> losses_by_hand(int64_t steps, int64_t micro_batches, DType compute, dist::World* world) {
  models::Gpt gpt(model_options());
  dist::Sharding* sharding = nullptr;
  if (world) {
    dist::Precision precision;
    if (compute != f32) precision.compute = compute;
    sharding = &dist::shard(gpt, {.mesh = dist::Mesh(*world),
                                  .strategy = dist::Strategy::full_shard,
                                  .units = dist::every<models::Block>(),
                                  .precision = precision});
  }
  nn::materialize(gpt, cpu(), seed);
  if (compute != f32 && !sharding) nn::use_mixed_precision(gpt, compute);
  const auto optimizer = adam(gpt.parameters());
  optim::Schedule schedule = rates();
  const auto source = windows(world ? world->rank() : 0, world ? world->size() : 1);
  std::vector<double> losses;
  for (int64_t step = 0; step < steps; ++step) {
    const data::Batch batch = source->batch(step);
    schedule.apply(*optimizer);
    const int64_t size = batch.size() / micro_batches;
    const double share = static_cast<double>(size) / static_cast<double>(batch.size());
    std::optional<optim::GradientSquares> squares;
    for (int64_t first = 0; first < batch.size(); first += size) {
      const bool is_last = first + size >= batch.size();
      if (is_last) squares.emplace(optimizer->parameters());
      std::optional<dist::Accumulation> accumulation;
      if (sharding && !is_last) accumulation.emplace(*sharding, false);
      const data::Batch micro = batch.micro_batch(first, size);
      begin_random_step(seed, step, micro.samples);
      const Variable loss = gpt.loss(micro.x, micro.y);
      losses.push_back(loss.value().item());
      loss.backward(Variable(Tensor::scalar(static_cast<float>(share))));
    }
    const auto clip = optim::clip_coefficient(optimizer->parameters(), 1.0);
    optimizer->step({.clip = clip.coefficient});
    optimizer->zero_grad();
    schedule.advance();
  }
  return losses;
}

TrainerOptions options_of(int64_t steps, int64_t micro_batches, PrecisionMode precision, dist::World* world) {
  return {.max_steps = steps,
          .strategy = world ? "full_shard" : "auto",
          .precision = precision,
          .accumulate = micro_batches,
          .gradient_clip = 1.0,
          .seed = seed,
          .units = dist::every<models::Block>(),
          .world = world};
}

std::vector<double> losses_of(TrainerOptions options, Text data = Text()) {
  Language task;
  Trainer trainer(std::move(options));
  trainer.fit(task, data);
  return task.losses;
}

std::string error_of(TrainerOptions options, Text data) {
  return message_of<Error>([&] { losses_of(std::move(options), std::move(data)); });
}

/// `count` batches of the windows; `is_known` says whether the number of steps is.
struct Short : data::BatchSource {
  std::shared_ptr<const data::BatchSource> all;
  int64_t count;
  bool is_known;
  Short(int rank, int world_size, int64_t count, bool is_known)
      : all(windows(rank, world_size)), count(count), is_known(is_known) {}
  data::Batch batch(int64_t step) const override { return all->batch(step); }
  std::optional<data::Batch> try_batch(int64_t step) const override {
    return step < count ? std::optional(batch(step)) : std::nullopt;
  }
  int64_t steps() const override { return is_known ? count : -1; }
  std::string name() const override { return "a short text"; }
};

SourceMaker short_source(int64_t count, bool is_known = true) {
  return [=](int rank, int world_size) { return std::make_shared<Short>(rank, world_size, count, is_known); };
}

}  // namespace

TEST_CASE("sources: the losses of a GPT are those of a hand-written loop, to the bit") {
  for (const DType compute : {f32, bf16})
    for (const int64_t micro_batches : {1, 2, 4}) {
      CAPTURE(micro_batches);
      const PrecisionMode precision = compute == f32 ? PrecisionMode::f32 : PrecisionMode::bf16;
      const std::vector<double> expected = losses_by_hand(6, micro_batches, compute, nullptr);
      REQUIRE(static_cast<int64_t>(expected.size()) == 6 * micro_batches);
      CHECK(losses_of(options_of(6, micro_batches, precision, nullptr)) == expected);
      test::require_no_problems(2, [&](dist::World& world) -> std::vector<std::string> {
        const std::vector<double> by_hand = losses_by_hand(6, micro_batches, compute, &world);
        if (losses_of(options_of(6, micro_batches, precision, &world)) == by_hand) return {};
        return {text("other losses with ", micro_batches, " micro-batches")};
      });
    }
}

TEST_CASE("sources: a run that is resumed at any step has the bits of one that was not stopped") {
  const TemporaryFolder folder;
  const auto run = [&](int64_t steps, const std::string& name, const std::string& resume,
                       dist::World* world) {
    TrainerOptions options = options_of(steps, 2, PrecisionMode::bf16, world);
    options.resume = resume;
    options.callbacks = {
        std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.folder = folder / name, .every_steps = 1})};
    return losses_of(std::move(options));
  };
  const std::vector<double> whole = run(5, "whole", "", nullptr);
  for (const int64_t stop : {1, 2, 4}) {
    const std::string name = "run" + std::to_string(stop);
    run(stop, name, "", nullptr);
    CHECK(run(5, name, folder / name, nullptr) == std::vector<double>(whole.begin() + 2 * stop, whole.end()));
  }
  test::require_no_problems(2, [&](dist::World& world) -> std::vector<std::string> {
    const std::vector<double> all = run(4, "ranks", "", &world);
    run(3, "stopped", "", &world);
    if (run(4, "stopped", folder / "stopped", &world) == std::vector<double>(all.begin() + 6, all.end()))
      return {};
    return {"other bits"};
  });
}

TEST_CASE("sources: epochs are the source's steps, or limit_train_batches of them, or the whole run") {
  struct Epochs : Callback {
    std::vector<int64_t> first_items;
    int64_t epochs = 0;
    void on_train_batch_start(Trainer&, Task&, const data::Batch& batch, int64_t) override {
      first_items.push_back(batch.items.front());
    }
    void on_train_epoch_end(Trainer&, Task&) override { ++epochs; }
  };
  const auto items_of = [](TrainerOptions options, SourceMaker source, int64_t epochs) {
    const auto record = std::make_shared<Epochs>();
    options.callbacks = {record};
    losses_of(std::move(options), Text(std::move(source)));
    CHECK(record->epochs == epochs);
    return record->first_items;
  };
  std::vector<int64_t> first;
  for (int64_t step = 0; step < 6; ++step) first.push_back(windows(0, 1)->batch(step).items.front());
  const auto of = [&](std::initializer_list<size_t> steps) {
    std::vector<int64_t> items;
    for (const size_t step : steps) items.push_back(first[step]);
    return items;
  };
  CHECK(items_of({.max_steps = 5}, windows, 1) == of({0, 1, 2, 3, 4}));
  CHECK(items_of({.max_epochs = 2, .limit_train_batches = 3}, windows, 2) == of({0, 1, 2, 3, 4, 5}));
  CHECK(items_of({.max_epochs = 2}, short_source(3), 2) == of({0, 1, 2, 0, 1, 2}));
  CHECK(items_of({.max_epochs = 2, .limit_train_batches = 2}, short_source(3), 2) == of({0, 1, 0, 1}));
  CHECK(items_of({.max_steps = 3, .overfit_batches = 1}, windows, 3) == of({0, 0, 0}));
  CHECK(items_of({.fast_dev_run = true}, windows, 1) == of({0}));
}

TEST_CASE("sources: validation ends with the source or at its limit, and its batches are not cut") {
  Text data(windows, short_source(3));
  struct Count : Callback {
    int64_t batches = 0, samples = 0;
    void on_validation_batch_end(Trainer&, Task&, const data::Batch& batch, int64_t) override {
      ++batches;
      samples += batch.size();
    }
  };
  const auto count = std::make_shared<Count>();
  losses_of({.max_steps = 2, .accumulate = 2, .validate_every = 2, .callbacks = {count}}, data);
  CHECK(count->batches == 3);
  CHECK(count->samples == 3 * batch_size);
  count->batches = 0;
  data.validation = windows;
  losses_of({.max_steps = 1, .callbacks = {count}, .limit_val_batches = 2}, data);
  CHECK(count->batches == 2);
}

TEST_CASE("sources: what does not fit is an error that says what is expected") {
  CHECK(error_of({.max_steps = 1, .accumulate = 3}, Text()) ==
        "a text: expected a multiple of the 3 micro-batches of a step (accumulate) in a rank's batch, got 8 "
        "samples");
  CHECK(error_of({.max_steps = 1}, Text(windows, windows)) ==
        "Trainer: a text has no end: expected limit_val_batches, got -1");
  CHECK(error_of({.max_steps = 9}, Text(short_source(2, false))) ==
        "a short text: ended at step 2, and its number of steps is not known: set limit_train_batches");
  CHECK(error_of({.max_steps = 1}, Text([](int, int) { return nullptr; })) ==
        "Trainer: the loader's source returned no batches");
  struct Both : Text {
    LoaderSpec spec;
    std::optional<LoaderSpec> train_dataloader() override { return spec; }
  };
  Both data;
  Language task;
  const auto message = [&] {
    return message_of<ConfigError>([&] { Trainer({.max_steps = 1}).fit(task, data); });
  };
  CHECK(message() == "Trainer: expected a dataset or a source of the loader, got neither");
  data.spec = {
      .dataset = std::make_shared<data::TensorDataset>(Tensor::zeros({2, 2}, f32), Tensor::zeros({2}, i64)),
      .source = windows};
  CHECK(message() == "Trainer: expected a dataset or a source of the loader, got both");
}
