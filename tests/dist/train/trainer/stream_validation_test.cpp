// Validation, test and prediction on streams: they end where the stream does, on ranks together.
#include <doctest/doctest.h>

#include "data/datasets/stream.h"
#include "tensor/error.h"
#include "tests/dist/train/callbacks/small_run.h"

using namespace small_run;

namespace {

/// The examples of a dataset in order.
struct InOrder : data::StreamDataset {
  std::shared_ptr<const data::Dataset> all;
  explicit InOrder(std::shared_ptr<const data::Dataset> dataset) : all(std::move(dataset)) {}
  std::unique_ptr<data::ExampleStream> open(int64_t) const override {
    struct Reading : data::ExampleStream {
      std::shared_ptr<const data::Dataset> all;
      int64_t at = 0;
      std::optional<data::Example> next() override {
        return at < all->size() ? std::optional(all->get(at++)) : std::nullopt;
      }
    };
    auto reading = std::make_unique<Reading>();
    reading->all = all;
    return reading;
  }
};

/// Ten examples of validation in batches of 4, of a dataset or of a stream.
struct Validation : Points {
  bool is_stream;
  int64_t epochs = 1;
  Validation(const dist::World* world, bool stream) : Points(world), is_stream(stream) {}
  std::optional<LoaderSpec> val_dataloader() override {
    if (!is_stream) return LoaderSpec{points(10, 1), {.batch_size = batch_size}};
    return LoaderSpec{.source = [this](int rank, int ranks) {
      return std::make_shared<data::StreamBatches>(
          std::make_shared<InOrder>(points(10, 1)),
          data::StreamBatches::Options{.batch_size = 4, .epochs = epochs, .rank = rank, .world_size = ranks});
    }};
  }
  std::optional<LoaderSpec> test_dataloader() override { return val_dataloader(); }
};

/// Rank r has `counts[r]` batches of its own; each logs its samples.
struct Uneven : data::BatchSource {
  int64_t rank, count;
  bool is_known_to_end = true;
  Uneven(int64_t r, int64_t n) : rank(r), count(n) {}
  data::Batch batch(int64_t step) const override {
    data::Batch made;
    made.x = Tensor::zeros({2, 4}, f32);
    for (int64_t i = 0; i < 8; ++i) made.x.data<float>()[i] = static_cast<float>(10 * rank + step);
    made.y = Tensor::zeros({2}, i64);
    made.samples = {2 * rank, 2 * rank + 1};
    made.items = {2 * step, 2 * step + 1};
    made.step = step;
    return made;
  }
  std::optional<data::Batch> try_batch(int64_t step) const override {
    return step < count ? std::optional(batch(step)) : std::nullopt;
  }
  bool may_end() const override { return is_known_to_end; }
  std::string name() const override { return "files"; }
};

struct UnevenData : Points {
  std::vector<int64_t> counts;
  bool is_known_to_end = true;
  UnevenData(const dist::World* world, std::vector<int64_t> n) : Points(world), counts(std::move(n)) {}
  std::optional<LoaderSpec> spec() {
    return LoaderSpec{.source = [this](int rank, int) {
      auto source = std::make_shared<Uneven>(rank, counts[static_cast<size_t>(rank)]);
      source->is_known_to_end = is_known_to_end;
      return source;
    }};
  }
  std::optional<LoaderSpec> val_dataloader() override { return spec(); }
  std::optional<LoaderSpec> predict_dataloader() override { return spec(); }
};

/// Logs the first input of each batch, and counts its steps.
struct Inputs : Classifier {
  int64_t validated = 0;
  void validation_step(const data::Batch& batch, int64_t) override {
    ++validated;
    (*this)(batch.x);  // gathers the weights of a sharded model
    log("input", static_cast<double>(batch.x.data<float>()[0]));
  }
  Tensor predict_step(const data::Batch& batch, int64_t) override { return (*this)(batch.x).value(); }
};

std::vector<double> val_losses(dist::World* world, bool is_stream, int64_t limit = -1) {
  const auto recorder = std::make_shared<Recorder>();
  Validation data(world, is_stream);
  Classifier task;
  Trainer trainer({.max_epochs = 2,
                   .strategy = world ? "full_shard" : "auto",
                   .monitors = {recorder},
                   .world = world,
                   .limit_val_batches = limit});
  trainer.fit(task, data);
  std::vector<double> losses;
  for (const auto& [step, value] : recorder->series("val_loss")) losses.push_back(value);
  losses.push_back(trainer.logged().at("train_loss"));
  return losses;
}

}  // namespace

TEST_CASE("streams: a validation reads all of one each time, with the values of the same dataset") {
  const std::vector<double> expected = val_losses(nullptr, false);
  CHECK(expected.size() == 3);
  CHECK(val_losses(nullptr, true) == expected);
  CHECK(val_losses(nullptr, true, 7) == expected);
  CHECK(val_losses(nullptr, true, 1) == val_losses(nullptr, false, 1));
  for (const int ranks : {2, 4})
    test::require_no_problems(ranks, [](dist::World& world) -> std::vector<std::string> {
      // A stream's last batch is on the first ranks, a dataset's on all: the sums are in another order.
      const std::vector<double> values = val_losses(&world, true), of_dataset = val_losses(&world, false);
      for (size_t i = 0; i < of_dataset.size(); ++i)
        if (!(values.size() == of_dataset.size() && std::abs(values[i] - of_dataset[i]) < 1e-6))
          return {"other values"};
      return {};
    });
  Validation data(nullptr, true);
  Classifier task;
  Trainer trainer({.max_steps = 1});
  trainer.fit(task, data);
  CHECK(trainer.test(task, data).contains("test_loss"));
}

TEST_CASE("streams: ranks with other numbers of batches end together, and their padding does not count") {
  test::require_no_problems(3, [](dist::World& world) -> std::vector<std::string> {
    std::vector<std::string> problems;
    UnevenData data(&world, {2, 1, 4});
    data.batch_size = 1;
    Inputs task;
    Trainer trainer({.max_steps = 2, .strategy = "full_shard", .validate_every = 1, .world = &world});
    trainer.fit(task, data);
    if (task.validated != 8) problems.push_back(text(task.validated, " batches of validation"));
    // 0 and 1 of rank 0, 10 of rank 1, 20 to 23 of rank 2, two samples each.
    const double mean = (0 + 1 + 10 + 20 + 21 + 22 + 23) / 7.0;
    if (std::abs(trainer.logged().at("input") - mean) > 1e-12)
      problems.push_back(text("mean ", trainer.logged().at("input")));
    const std::vector<Tensor> results = trainer.predict(task, data);
    if (std::ssize(results) != data.counts[static_cast<size_t>(world.rank())])
      problems.push_back(text(results.size(), " results"));
    return problems;
  });
}

TEST_CASE("streams: no batch at all on a rank, and a source that does not say that it ends, are errors") {
  test::require_no_problems(2, [](dist::World& world) -> std::vector<std::string> {
    UnevenData data(&world, {1, 0});
    Inputs task;
    const std::string message = message_of<DataError>(
        [&] { Trainer({.max_steps = 1, .validate_every = 1, .world = &world}).fit(task, data); });
    const std::string expected =
        text("files: expected a batch on every rank, got none on ", world.rank() == 1 ? "this one" : "some");
    if (message == expected) return {};
    return {message};
  });
  UnevenData data(nullptr, {2});
  data.is_known_to_end = false;
  Inputs task;
  CHECK(message_of<ConfigError>([&] { Trainer({.max_steps = 1}).fit(task, data); }) ==
        "Trainer: files has no end: expected limit_val_batches, got -1");
  Validation endless(nullptr, true);
  endless.epochs = -1;
  Classifier other;
  CHECK(contains(message_of<ConfigError>([&] { Trainer({.max_steps = 1}).fit(other, endless); }),
                 "has no end: expected limit_val_batches"));
}
