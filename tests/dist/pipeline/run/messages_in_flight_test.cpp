// More messages on their way than the send queue of a rank holds (64), read in other orders than sent.

#include <chrono>
#include <thread>

#include "dist/pipeline/schedule/csv.h"
#include "models/dnn.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/dist/pipeline/run/step_comparison.h"

using namespace tessera;

namespace {

test::StagedModel four_layers() {
  auto dnn = std::make_unique<models::Dnn>(models::DnnOptions{.layers = 4, .width = 4});
  test::StagedModel model{.layers = dnn->to_layered_model()};
  // The other rank waits before the first message is sent.
  model.layers.layers[0].run = [run = model.layers.layers[0].run](const nn::LayerValues& values) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return run(values);
  };
  model.module = std::move(dnn);
  return model;
}

constexpr int micro_batches = 160;

/// "0F0,0F1,..." for the micro-batches in ascending or descending order.
std::string actions(int stage, const std::string& kinds, bool descends) {
  std::string row;
  for (int i = 0; i < micro_batches; ++i)
    for (const char kind : kinds)
      row += text(row.empty() ? "" : ",", stage, kind, descends ? micro_batches - 1 - i : i);
  return row;
}

}  // namespace

TEST_CASE("pipeline, messages in flight: a stage that reads what it received last first") {
  const std::string first = actions(0, "F", false);
  for (const std::string& rows : {first + "," + actions(0, "B", true) + "\n" + actions(1, "FB", true) + "\n",
                                  first + "," + actions(0, "B", true) + "\n" + actions(1, "F", true) + "," +
                                      actions(1, "B", false) + "\n"})
    test::require_no_problems(2, [&](dist::World& world) {
      const auto table = [&](int) { return dist::parse_schedule_csv(rows, "last first"); };
      return test::compare_steps(
          world, {.mesh = dist::pipeline_mesh(world, 2), .table = table, .micro_batches = micro_batches},
          four_layers, test::regression_batches(micro_batches));
    });
}

TEST_CASE("pipeline, messages in flight: every schedule with 160 micro-batches") {
  for (const dist::ScheduleKind kind : dist::schedule_kinds)
    test::require_no_problems(2, [&](dist::World& world) {
      return test::compare_steps(world, {.mesh = dist::pipeline_mesh(world, 2), .schedule = kind},
                                 four_layers, test::regression_batches(micro_batches));
    });
}
