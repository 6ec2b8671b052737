#include "dist/train/callbacks/trace_writer.h"

#include <doctest/doctest.h>
#include <json/json.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "dist/train/trainer/trainer.h"
#include "nn/functional.h"
#include "nn/layers/linear.h"
#include "optim/rules/adam.h"
#include "tensor/error.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using namespace tessera::training;

namespace {

struct Regression : TaskOf<Regression> {
  nn::Linear& out = add<nn::Linear>("out", {.in = 2, .out = 1});
  Variable forward(const Variable& x) { return out(x); }
  Variable training_step(const data::Batch& batch, int64_t) override {
    return nn::mse_loss((*this)(batch.x), batch.y);
  }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::Adam>(parameters, 1e-2)};
  }
};

struct Lines : DataModule {
  std::optional<LoaderSpec> train_dataloader() override {
    const Tensor x = Tensor::zeros({16, 2}, f32), y = Tensor::zeros({16, 1}, f32);
    return LoaderSpec{std::make_shared<data::TensorDataset>(x, y), {.batch_size = 2}};
  }
};

/// Trains eight micro-batches in steps of two.
void train(const TraceWriterOptions& options, dist::World* world = nullptr) {
  Regression task;
  Lines data;
  Trainer trainer({.max_epochs = 1,
                   .accumulate = 2,
                   .callbacks = {std::make_shared<TraceWriter>(options)},
                   .world = world});
  trainer.fit(task, data);
}

/// The numbers of the steps in a trace.
std::set<int> steps_in(const std::string& path) {
  Json::Value trace;
  std::ifstream(path) >> trace;
  std::set<int> steps;
  for (const Json::Value& event : trace["traceEvents"])
    if (event["cat"] == "step") steps.insert(event["args"]["step"].asInt());
  return steps;
}

}  // namespace

TEST_CASE("TraceWriter: the steps that were asked for, and a table of operations") {
  const TemporaryFolder folder;
  std::ostringstream table;
  train({.path = folder / "trace.json", .steps = "2:3", .table = &table});
  CHECK(steps_in(folder / "trace.json") == std::set<int>{2, 3});
  CHECK_MESSAGE(contains(table.str(), "profile of 2 steps"), table.str());
  CHECK(contains(table.str(), "inside kernels"));
}

TEST_CASE("TraceWriter: each micro-batch has a forward, as a phase") {
  const TemporaryFolder folder;
  train({.path = folder / "trace.json", .steps = "2:3"});
  Json::Value trace;
  std::ifstream(folder / "trace.json") >> trace;
  std::map<std::string, int> phases;
  for (const Json::Value& event : trace["traceEvents"])
    if (event["cat"] == "phase") ++phases[event["name"].asString()];
  CHECK(phases["forward"] == 4);
  CHECK(phases["backward"] == 4);
  CHECK(phases["optimizer"] == 2);
}

TEST_CASE("TraceWriter: ranks that are threads share one trace") {
  const TemporaryFolder folder;
  const std::string path = folder / "trace.json";
  const auto problems = test::on_threads(2, [&](dist::World& world) {
    train({.path = path, .steps = "1:2"}, &world);
    return std::vector<std::string>();
  });
  CHECK(problems.empty());
  CHECK(steps_in(path) == std::set<int>{1, 2});
  CHECK(!std::filesystem::exists(folder / "trace.rank1.json"));
}

TEST_CASE("TraceWriter: what cannot be traced is an error before the first step") {
  const TemporaryFolder folder;
  CHECK(contains(message_of<ConfigError>([] { TraceWriter({.path = ""}); }), "expected a path"));
  for (const char* steps : {"2", "a:b", "3:2", "0:1", "4:5", "100:110"})
    CHECK_MESSAGE(
        contains(message_of<ConfigError>([&] { train({.path = folder / "trace.json", .steps = steps}); }),
                 text("steps")),
        steps);
  CHECK(
      contains(message_of<ConfigError>([&] { train({.path = folder / "no/such/trace.json"}); }), "no/such"));
}

TEST_CASE("TraceWriter: a run that ends before its steps says so, in the table or else in the log") {
  struct Stop : Callback {
    void on_train_batch_end(Trainer& trainer, Task&, const data::Batch&, int64_t) override { trainer.stop(); }
  };
  const TemporaryFolder folder;
  const auto said = [&](bool has_table) {
    std::ostringstream table;
    std::string logged;
    Regression task;
    Lines data;
    Trainer trainer({.max_epochs = 1,
                     .callbacks = {std::make_shared<Stop>(), std::make_shared<TraceWriter>(TraceWriterOptions{
                                                                 .path = folder / "trace.json",
                                                                 .steps = "4:5",
                                                                 .table = has_table ? &table : nullptr})},
                     .log = Logger([&](const LogRecord& record) { logged += record.message; })});
    trainer.fit(task, data);
    CHECK(table.str().empty() != has_table);
    return table.str() + logged;
  };
  const std::string line =
      "trace of steps 4 to 5: the run ended before them; " + folder / "trace.json" + " has no step";
  CHECK(said(true) == line + "\n");
  CHECK(said(false) == line);
}
