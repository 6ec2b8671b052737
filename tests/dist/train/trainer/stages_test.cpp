// What a stage has of the data, and what a seed determines.
#include <doctest/doctest.h>

#include <algorithm>

#include "dist/train/callbacks/reports/learning_rate_monitor.h"
#include "dist/train/metrics/accuracy.h"
#include "dist/train/monitors/csv.h"
#include "dist/train/monitors/run_directory.h"
#include "nn/layers/dropout.h"
#include "optim/rules/sgd.h"
#include "tests/dist/train/callbacks/small_run.h"
#include "tests/support/temporary_folder.h"

using namespace small_run;

namespace {

using Items = std::vector<int64_t>;

/// The parts of a data set, which `setup` makes.
struct Parts : DataModule {
  std::shared_ptr<const data::Dataset> training, validation, testing;
  std::string calls;
  void prepare_data() override { calls += "prepare "; }
  void setup(Stage stage) override {
    constexpr const char* names[] = {"fit", "validate", "test", "predict"};
    calls += std::string(names[static_cast<int>(stage)]) + " ";
    training = validation = testing = nullptr;
    if (stage == Stage::fit) training = points(12);
    if (stage == Stage::fit || stage == Stage::validate) validation = points(8, 1);
    if (stage == Stage::test) testing = points(4, 2);
  }
  static std::optional<LoaderSpec> loader(const std::shared_ptr<const data::Dataset>& dataset) {
    if (!dataset) return std::nullopt;
    return LoaderSpec{dataset, {.batch_size = 4, .shuffle = true}};
  }
  std::optional<LoaderSpec> train_dataloader() override { return loader(training); }
  std::optional<LoaderSpec> val_dataloader() override { return loader(validation); }
  std::optional<LoaderSpec> test_dataloader() override { return loader(testing); }
};

/// The examples of each epoch and stage, in their order.
struct Orders : Callback {
  std::vector<Items> training, validation;
  Items testing;
  static void add(Items& items, const data::Batch& batch) {
    items.insert(items.end(), batch.items.begin(), batch.items.end());
  }
  void on_train_epoch_start(Trainer&, Task&) override { training.emplace_back(); }
  void on_validation_start(Trainer&, Task&) override { validation.emplace_back(); }
  void on_train_batch_end(Trainer&, Task&, const data::Batch& batch, int64_t) override {
    add(training.back(), batch);
  }
  void on_validation_batch_end(Trainer&, Task&, const data::Batch& batch, int64_t) override {
    add(validation.back(), batch);
  }
  void on_test_batch_end(Trainer&, Task&, const data::Batch& batch, int64_t) override { add(testing, batch); }
};

Items sorted(Items items) {
  std::sort(items.begin(), items.end());
  return items;
}

Items in_order(int64_t count) {
  Items items;
  for (int64_t i = 0; i < count; ++i) items.push_back(i);
  return items;
}

}  // namespace

TEST_CASE("stages: each sets up its data; training has a new order in each epoch, the others none") {
  const auto orders = std::make_shared<Orders>();
  Parts data;
  Classifier task;
  Trainer trainer({.max_epochs = 3, .callbacks = {orders}});
  trainer.fit(task, data);
  CHECK(data.calls == "prepare fit ");
  REQUIRE(orders->training.size() == 3);
  for (const Items& items : orders->training) {
    CHECK(items != in_order(12));
    CHECK(sorted(items) == in_order(12));
  }
  CHECK(orders->training[0] != orders->training[1]);
  CHECK(orders->training[1] != orders->training[2]);
  CHECK(orders->validation == std::vector<Items>(3, in_order(8)));
  trainer.test(task, data);
  CHECK(data.calls == "prepare fit prepare test ");
  CHECK(orders->testing == in_order(4));
  trainer.validate(task, data);
  CHECK(data.calls == "prepare fit prepare test prepare validate ");
  // The data of another stage is not there.
  struct Forgetful : Parts {
    void setup(Stage) override { Parts::setup(Stage::test); }
  };
  Forgetful wrong;
  CHECK(contains(message_of<ConfigError>([&] { trainer.fit(task, wrong); }), "expected a training loader"));
}

TEST_CASE("seeds: a run with the same seed has the same bits, with another one others, on ranks too") {
  struct Dropping : Classifier {
    nn::Dropout& drop = add<nn::Dropout>("drop", 0.5);
    std::vector<double> losses;
    Variable training_step(const data::Batch& batch, int64_t) override {
      const Variable loss = nn::cross_entropy(second(drop(tanh(first(batch.x)))), batch.y);
      losses.push_back(loss.value().item());
      return loss;
    }
  };
  const auto losses = [](uint64_t seed, dist::World* world) {
    Points data(world);
    Dropping task;
    Trainer({.max_epochs = 2, .seed = seed, .world = world}).fit(task, data);
    return task.losses;
  };
  const std::vector<double> first = losses(42, nullptr);
  CHECK(first.size() == 6);
  CHECK(losses(42, nullptr) == first);
  CHECK(losses(43, nullptr) != first);
  test::require_no_problems(2, [&](dist::World& world) -> std::vector<std::string> {
    const std::vector<double> own = losses(42, &world);
    if (losses(42, &world) != own) return {"other bits with the same seed"};
    if (losses(43, &world) == own) return {"the same bits with another seed"};
    return {};
  });
}

TEST_CASE("epochs: a rate that falls once an epoch, by the number of its steps") {
  struct Decaying : Classifier {
    OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
      return {std::make_unique<optim::SGD>(parameters, optim::SGDOptions{.lr = 2e-4}),
              optim::step_decay({.step_size = 3, .gamma = 0.6})};  // 12 samples in batches of 4
    }
  };
  struct Rates : Callback {
    std::vector<double> rates;
    void on_train_batch_start(Trainer& trainer, Task&, const data::Batch&, int64_t) override {
      rates.push_back(trainer.engine().get_lr().at(0));
    }
  };
  const auto rates = std::make_shared<Rates>();
  Points data;
  Decaying task;
  Trainer({.max_epochs = 5, .callbacks = {rates}}).fit(task, data);
  REQUIRE(rates->rates.size() == 15);
  const double expected[] = {2e-4, 1.2e-4, 7.2e-5, 4.32e-5, 2.592e-5};
  for (size_t i = 0; i < 15; ++i) CHECK(rates->rates[i] == doctest::Approx(expected[i / 3]).epsilon(1e-12));
}

TEST_CASE("a run's record: columns of losses and accuracies, which are recomputed; a rate from its folder") {
  struct Measured : Classifier {
    double rate = 0;
    Accuracy accuracy;
    double share(const data::Batch& batch) {
      accuracy.reset();
      accuracy.update((*this)(batch.x), batch.y, batch.weights());
      return accuracy.compute().item();
    }
    void validation_step(const data::Batch& batch, int64_t index) override {
      Classifier::validation_step(batch, index);
      log("val_acc", share(batch));
    }
    void test_step(const data::Batch& batch, int64_t index) override {
      Classifier::test_step(batch, index);
      log("test_acc", share(batch));
    }
    OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
      return {std::make_unique<optim::SGD>(parameters, optim::SGDOptions{.lr = rate})};
    }
  };
  const TemporaryFolder folder;
  Points data;
  // The configuration is written, changed, and read by the run.
  write_run_directory(
      folder / "run",
      describe_run({.name = "imdb-demo", .tags = {"demo"}, .configuration = {{"lr", "0.25"}}}));
  for (const char* lr : {"0.25", "0.125"}) {
    RunRecord record = read_run_directory(folder / "run");
    CHECK(record.metadata.name == "imdb-demo");
    CHECK(record.metadata.tags == std::vector<std::string>{"demo"});
    record.configuration.at(0).second = lr;
    write_run_directory(folder / "run", record);
    Measured task;
    task.rate = std::stod(read_run_directory(folder / "run").configuration.at(0).second);
    const std::string table = folder / (std::string(lr) + ".csv");
    const auto recorder = std::make_shared<Recorder>();
    Trainer trainer({.max_epochs = 2,
                     .callbacks = {std::make_shared<LearningRateMonitor>()},
                     .monitors = {std::make_shared<CsvMonitor>(table), recorder},
                     .log_every = 1});
    trainer.fit(task, data);
    const Series rates = recorder->series("lr");
    CHECK(rates.size() == 6);
    for (const auto& [step, rate] : rates) CHECK(rate == std::stod(lr));
    const double accuracy = trainer.logged().at("val_acc");
    const auto tested = trainer.test(task, data);
    const std::string text = file_bytes(table);
    const std::string header = text.substr(0, text.find('\n'));
    for (const char* column : {"train_loss", "val_loss", "val_acc", "test_loss", "test_acc"})
      CHECK_MESSAGE(contains(header, column), header);
    CHECK(tested.contains("test_acc"));
    // The share of samples of which the largest score is that of their class.
    data::DataLoader loader(points(8, 1), {.batch_size = 8});
    int64_t right = 0;
    for (auto& [x, y] : loader) {
      const Tensor scores = task(x).value();
      for (int64_t i = 0; i < 8; ++i) {
        const float* row = scores.data<float>() + 3 * i;
        right += std::max_element(row, row + 3) - row == y.template data<int64_t>()[i];
      }
    }
    CHECK(accuracy == doctest::Approx(static_cast<double>(right) / 8));
  }
}
