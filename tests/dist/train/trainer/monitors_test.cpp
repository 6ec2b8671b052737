// What a Trainer reports to its monitors: read back from a recording monitor and from files.
#include <doctest/doctest.h>
#include <json/json.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "dist/train/callbacks/model_checkpoint.h"
#include "dist/train/monitors/csv.h"
#include "dist/train/monitors/json_lines.h"
#include "dist/train/monitors/run_directory.h"
#include "dist/train/monitors/tensorboard.h"
#include "tensor/error.h"
#include "tests/dist/train/callbacks/small_run.h"
#include "tests/dist/train/monitors/event_reader.h"
#include "tests/support/temporary_folder.h"

using namespace small_run;

namespace {

constexpr LogOptions both{.on_step = true};
constexpr int session_start = 1;  // of TensorBoard's SessionLog.status

/// Keeps the newest logged values of each epoch.
struct Epochs : Callback {
  std::vector<std::map<std::string, double>> logged;
  void on_train_epoch_end(Trainer& trainer, Task&) override { logged.push_back(trainer.logged()); }
};

std::vector<Json::Value> json_lines(const std::string& path) {
  std::vector<Json::Value> values;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    Json::Value value;
    std::istringstream(line) >> value;
    values.push_back(value);
  }
  return values;
}

std::string option(const RunDescription& run, const std::string& name) {
  for (const auto& [each, value] : run.configuration)
    if (each == name) return value;
  return "(none)";
}

void fit(TrainerOptions options, LogOptions log = {}, int64_t size = 12) {
  Points data(options.world, size);
  Classifier task;
  task.options = log;
  Trainer trainer(std::move(options));
  trainer.fit(task, data);
}

}  // namespace

TEST_CASE("trainer monitors: one call for each step with values, with the epoch's means, and the options") {
  const auto recorder = std::make_shared<Recorder>();
  const auto epochs = std::make_shared<Epochs>();
  fit({.max_epochs = 2,
       .gradient_clip = 0.5,
       .callbacks = {epochs},
       .monitors = {recorder},
       .log_every = 2,
       .run = {.name = "small", .tags = {"a"}, .configuration = {{"width", "6"}, {"seed", "of the data"}}}},
      both);
  CHECK(recorder->calls ==
        std::vector<std::string>{"begin", "scalars 2", "scalars 3", "scalars 4", "scalars 6", "end"});
  CHECK(recorder->run.name == "small");
  CHECK(recorder->run.resume_step == -1);
  CHECK(recorder->run.configuration[0] == std::pair<std::string, std::string>{"width", "6"});
  CHECK(option(recorder->run, "seed") == "of the data");
  CHECK(option(recorder->run, "train_batch_size") == "4");
  CHECK(option(recorder->run, "gradient_clip") == "0.5");
  CHECK(option(recorder->run, "max_epochs") == "2");
  CHECK(option(recorder->run, "ranks") == "1");
  REQUIRE(recorder->rows.size() == 4);
  CHECK(recorder->rows[0].second.size() == 1);
  CHECK(recorder->rows[1].second ==
        std::map<std::string, double>{{"train_loss_epoch", epochs->logged[0].at("train_loss")},
                                      {"val_loss", epochs->logged[0].at("val_loss")}});
  CHECK(recorder->rows[3].second.size() == 3);  // the step's value and those of the epoch's end
  CHECK(recorder->series("train_loss_step").size() == 3);
  CHECK(recorder->series("train_loss_epoch")[1].second == epochs->logged[1].at("train_loss"));
}

TEST_CASE("trainer monitors: the value of a step is that of all its samples, on every rank and micro-batch") {
  const auto recorded = [](dist::World* world, int64_t accumulate, int64_t batch_size, LogOptions log) {
    const auto recorder = std::make_shared<Recorder>();
    Points data(nullptr, 16);
    data.batch_size = batch_size;
    Classifier task;
    task.options = log;
    Trainer trainer(
        {.max_epochs = 1, .accumulate = accumulate, .monitors = {recorder}, .log_every = 1, .world = world});
    trainer.fit(task, data);
    return recorder;
  };
  const Series whole = recorded(nullptr, 1, 8, both)->series("train_loss_step");
  REQUIRE(whole.size() == 2);
  CHECK(whole[0].first == 1);
  const auto near = [&](const Series& other) {
    if (other.size() != 2) return false;
    return std::abs(other[0].second - whole[0].second) < 1e-6 &&
           std::abs(other[1].second - whole[1].second) < 1e-6;
  };
  CHECK(near(recorded(nullptr, 2, 4, both)->series("train_loss_step")));
  test::require_no_problems(2, [&](dist::World& world) -> std::vector<std::string> {
    const Series series = recorded(&world, 2, 2, both)->series("train_loss_step");
    if (world.rank() != 0 || near(series)) return {};
    return {"other values"};
  });
  const auto of_steps = recorded(nullptr, 1, 8, {.on_step = true, .on_epoch = false});
  CHECK(of_steps->series("train_loss") == whole);
  const auto of_epochs = recorded(nullptr, 1, 8, {});
  REQUIRE(of_epochs->series("train_loss").size() == 1);
  CHECK(of_epochs->series("train_loss")[0].second ==
        doctest::Approx((whole[0].second + whole[1].second) / 2));
  CHECK(of_epochs->rows.size() == 1);
}

TEST_CASE("trainer monitors: rank 0 alone writes") {
  test::require_no_problems(2, [&](dist::World& world) -> std::vector<std::string> {
    const auto recorder = std::make_shared<Recorder>();
    fit({.max_epochs = 1, .monitors = {recorder}, .log_every = 1, .world = &world}, both);
    if (recorder->calls.empty() == (world.rank() == 0)) return {"calls"};
    return {};
  });
}

TEST_CASE("trainer monitors: closed after an exception, with what was reported until then") {
  struct Thrower : Callback {
    void on_after_backward(Trainer& trainer, Task&) override {
      if (trainer.global_step() == 2) throw DataError("stop");
    }
    void on_train_batch_end(Trainer& trainer, Task&, const data::Batch&, int64_t) override {
      trainer.report("own", 7);
    }
    void on_exception(Trainer& trainer, Task&, const std::exception&) override { trainer.report("last", 8); }
  };
  const TemporaryFolder folder;
  const auto recorder = std::make_shared<Recorder>();
  const auto lines = std::make_shared<JsonLinesMonitor>(folder / "metrics.jsonl");
  CHECK(message_of<DataError>([&] {
          fit({.max_epochs = 1,
               .callbacks = {std::make_shared<Thrower>()},
               .monitors = {recorder, lines},
               .log_every = 1},
              both);
        }) == "stop");
  CHECK(recorder->calls == std::vector<std::string>{"begin", "scalars 1", "scalars 2", "scalars 2", "close"});
  CHECK(recorder->rows[1].second.at("own") == 7);
  CHECK(recorder->rows[2].second == std::map<std::string, double>{{"last", 8}});
  const std::vector<Json::Value> read = json_lines(folder / "metrics.jsonl");
  REQUIRE(read.size() == 4);
  CHECK(read[3]["last"].asDouble() == 8);
  // The file is closed: a monitor that is not begun throws for values.
  CHECK(contains(message_of<ConfigError>([&] { lines->scalars(3, {}); }), "outside a run"));
  CHECK(contains(message_of<ConfigError>([&] { fit({.max_epochs = 1, .monitors = {nullptr}}); }),
                 "expected monitors, got a null pointer"));
}

TEST_CASE("trainer monitors: JSON lines, CSV, TensorBoard and the run's folder, continued by a resumed run") {
  const TemporaryFolder folder;
  const auto run = [&](int64_t steps, const std::string& name, const std::string& resume) {
    std::vector<std::shared_ptr<Monitor>> monitors{
        std::make_shared<JsonLinesMonitor>(folder / (name + ".jsonl")),
        std::make_shared<CsvMonitor>(folder / (name + ".csv")),
        std::make_shared<RunDirectoryMonitor>(folder / (name + "-run"))};
    if (tensorboard_is_built())
      monitors.push_back(std::make_shared<TensorBoardMonitor>(folder / (name + "-board")));
    // Two steps after the checkpoint, the third was reported and is done again.
    struct Stop : Callback {
      int64_t step;
      explicit Stop(int64_t at) : step(at) {}
      void on_before_backward(Trainer& trainer, Task&, const Variable&) override {
        if (trainer.global_step() == step) throw DataError("killed");
      }
    };
    struct Save : Callback {
      std::string folder;
      explicit Save(std::string to) : folder(std::move(to)) {}
      void on_train_batch_end(Trainer& trainer, Task&, const data::Batch&, int64_t) override {
        if (trainer.global_step() == 2) trainer.save_checkpoint(folder);
      }
    };
    (void)message_of<DataError>([&] {
      fit({.max_epochs = 2,
           .resume = resume,
           .callbacks = {std::make_shared<Stop>(steps), std::make_shared<Save>(folder / name)},
           .monitors = monitors,
           .log_every = 1,
           .run = {.name = name}},
          both, 20);
    });
  };
  run(99, "whole", "");
  run(4, "run", "");
  run(99, "run", folder / "run");

  std::vector<Json::Value> whole = json_lines(folder / "whole.jsonl"),
                           resumed = json_lines(folder / "run.jsonl");
  const auto values_of = [](std::vector<Json::Value> lines) {
    std::vector<Json::Value> values;
    for (const Json::Value& line : lines)
      if (!line.isMember("event")) values.push_back(line);
    return values;
  };
  CHECK(whole[0]["configuration"]["micro_batch_size"] == "4");
  CHECK(resumed[3]["event"] == "resume");
  CHECK(resumed[3]["step"] == 2);
  CHECK(resumed.back()["event"] == "end");
  REQUIRE(values_of(whole).size() == 10);
  CHECK(values_of(resumed) == values_of(whole));  // to the last digit, the epoch's means too

  CHECK(file_bytes(folder / "run.csv") == file_bytes(folder / "whole.csv"));
  const RunRecord record = read_run_directory(folder / "run-run");
  CHECK(record.metadata.name == "run");
  CHECK(record.configuration == read_run_directory(folder / "whole-run").configuration);

  if (!tensorboard_is_built()) return;
  // Readers drop of earlier files what is at the later one's first step and after.
  const auto scalars = [&](const std::string& name) {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder / (name + "-board")))
      files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    std::map<std::pair<std::string, int64_t>, float> values;
    for (const std::string& file : files)
      for (const std::string& payload : read_tfrecords(file)) {
        const WireMessage event(payload);
        const int64_t step = event.has(2) ? event.integer(2) : 0;
        if (event.has(7) && event.message(7).integer(1) == session_start)
          std::erase_if(values, [&](const auto& each) { return each.first.second >= step; });
        if (!event.has(5)) continue;
        for (const WireMessage& value : event.message(5).messages(1))
          if (value.has(2)) values[{value.text(1), step}] = value.f32(2);
      }
    return values;
  };
  CHECK(scalars("whole").size() == 14);  // 10 of steps, 2 of epochs, 2 of validations
  CHECK(scalars("run") == scalars("whole"));
}

TEST_CASE("trainer monitors: a test after the fit is of its last step; without a fit nothing is written") {
  const TemporaryFolder folder;
  const auto lines = std::make_shared<JsonLinesMonitor>(folder / "metrics.jsonl");
  Points data;
  Classifier task;
  Trainer trainer({.max_epochs = 1, .monitors = {lines}});
  trainer.fit(task, data);
  const double loss = trainer.test(task, data).at("test_loss");
  const std::vector<Json::Value> read = json_lines(folder / "metrics.jsonl");
  REQUIRE(read.size() == 5);  // start, epoch, resume, test, end
  CHECK(read[1]["step"] == 3);
  CHECK(read[3]["step"] == 3);
  CHECK(read[3]["test_loss"].asDouble() == loss);
  CHECK(read[4]["event"] == "end");

  const auto recorder = std::make_shared<Recorder>();
  Trainer other({.max_epochs = 1, .monitors = {recorder}});
  other.test(task, data);
  CHECK(recorder->calls.empty());
}
