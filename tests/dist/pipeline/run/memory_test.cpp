// The bytes that each rank of a pipeline holds, from its memory account.

#include <algorithm>
#include <cstdlib>

#include "models/dnn.h"
#include "nn/materialize.h"
#include "tensor/memory/account.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/dist/pipeline/run/step_comparison.h"

using namespace tessera;
using dist::ScheduleKind;

namespace {

constexpr int64_t rows = 32, width = 16, layers_per_stage = 12, value_bytes = rows * width * 8;
/// Values besides those of live micro-batches: on their way from and to other stages, and the gradients of
/// the layer that computes. Less than a live micro-batch.
constexpr int64_t other_values = 10;

int64_t now(MemoryCategory category) {
  return current_account()->count(category).current;
}

/// The peak of activations of a step, in values, beyond what was there before.
int64_t peak_values(dist::Pipeline& pipeline, int micro_batches, std::vector<std::string>& problems) {
  const std::vector<dist::MicroBatch> batches = test::regression_batches(micro_batches, rows, width);
  pipeline.train_step(batches);
  const int64_t before = now(MemoryCategory::activation), all = current_account()->total().current;
  current_account()->reset_peaks();
  pipeline.train_step(batches);
  const int64_t peak = current_account()->count(MemoryCategory::activation).peak - before;
  // A communicator may keep the numbers of its newest call.
  constexpr int64_t kept = 256;
  if (std::abs(now(MemoryCategory::activation) - before) > kept ||
      std::abs(current_account()->total().current - all) > kept)
    problems.push_back(text("a step leaves ", now(MemoryCategory::activation) - before,
                            " bytes of activations, and ", current_account()->total().current - all,
                            " in all"));
  return (peak + value_bytes - 1) / value_bytes;
}

}  // namespace

TEST_CASE("pipeline, memory: activations of 1F1B grow with the stages that follow, of GPipe with M") {
  constexpr int stages = 4;
  test::require_no_problems(stages, [](dist::World& world) {
    std::vector<std::string> problems;
    for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b}) {
      models::Dnn dnn({.layers = stages * layers_per_stage, .width = width});
      dnn.to(f64);
      dist::Pipeline pipeline(dnn, dnn.to_layered_model(),
                              {.mesh = dist::pipeline_mesh(world, stages), .schedule = kind});
      nn::materialize(dnn, cpu(), 1);
      for (const int micro_batches : {1, 2, 4, 9}) {
        const int64_t live =
            kind == ScheduleKind::gpipe ? micro_batches : std::min(micro_batches, stages - world.rank());
        const int64_t values = peak_values(pipeline, micro_batches, problems);
        // A layer keeps its input; that of the first one is the batch's. The last one's result is sent.
        const int64_t least = live * (layers_per_stage - 1),
                      most = live * (layers_per_stage + 1) + other_values;
        if (values < least || values > most)
          problems.push_back(text(dist::name_of(kind), ", ", micro_batches, " micro-batches: ", values,
                                  " values, expected ", least, " to ", most));
      }
    }
    return problems;
  });
}

TEST_CASE("pipeline, memory: a rank holds the parameters and gradients of its stages alone") {
  test::require_no_problems(3, [](dist::World& world) {
    std::vector<std::string> problems;
    for (const bool has_values : {false, true}) {
      const int64_t before = now(MemoryCategory::parameter);
      models::Dnn dnn({.layers = 6, .width = width});
      dnn.to(f64);
      if (has_values) nn::materialize(dnn, cpu(), 1);
      dist::Pipeline pipeline(
          dnn, dnn.to_layered_model(),
          {.mesh = dist::pipeline_mesh(world, 3),
           .partition = {.kind = dist::PartitionKind::boundaries, .boundaries = {0, 1, 3, 6}}});
      nn::materialize(dnn, cpu(), 1);
      const int64_t expected = (world.rank() + 1) * (width * width + width) * 8;
      if (now(MemoryCategory::parameter) - before != expected)
        problems.push_back(text(now(MemoryCategory::parameter) - before, " bytes of parameters, expected ",
                                expected, has_values ? ", cut with values" : ", cut on meta"));
      pipeline.train_step(test::regression_batches(3, rows, width));
      int64_t gradients = 0;
      for (const NamedParameter& parameter : dnn.parameters())
        gradients += parameter.variable.grad().value().nbytes();
      if (gradients != expected)
        problems.push_back(text(gradients, " bytes of gradients, expected ", expected));
    }
    return problems;
  });
}

TEST_CASE("pipeline, memory: building from specs takes a stage's bytes, building the whole model takes all") {
  constexpr int stages = 4;
  test::require_no_problems(stages, [](dist::World& world) {
    std::vector<std::string> problems;
    for (const bool is_plain : {false, true}) {
      const int64_t before = now(MemoryCategory::parameter);
      current_account()->reset_peaks();
      models::Dnn dnn({.layers = 3 * stages, .width = width});
      dnn.to(f64);
      const int64_t all = 8 * dnn.parameters().numel();
      if (is_plain) nn::materialize(dnn, cpu(), 1);
      dist::Pipeline pipeline(dnn, dnn.to_layered_model(), {.mesh = dist::pipeline_mesh(world, stages)});
      if (!is_plain) nn::materialize(dnn, cpu(), 1);
      const int64_t peak = current_account()->count(MemoryCategory::parameter).peak - before,
                    kept = now(MemoryCategory::parameter) - before;
      // Each storage is rounded up to 64 bytes.
      const int64_t expected = is_plain ? all : all / stages, rounding = 64 * 2 * 3 * stages;
      if (peak < expected || peak > expected + rounding)
        problems.push_back(text(is_plain ? "the whole model" : "specs", ": expected a peak of ", expected,
                                " bytes, got ", peak));
      if (kept > all / stages + rounding) problems.push_back(text("a rank keeps ", kept, " bytes"));
    }
    return problems;
  });
}

TEST_CASE("pipeline, memory: a model that one rank's limit does not hold trains in stages") {
  const models::DnnOptions options{.layers = 8, .width = 64};
  const int64_t model_bytes = models::parameter_count(options) * 8;
  const int64_t limit = model_bytes;  // parameters and gradients of a quarter are half of it
  const auto batches = test::regression_batches(4, 8, options.width);
  const auto limited = [&](const auto& train) -> std::string {
    const auto account = make_intrusive<MemoryAccount>();
    account->set_limit(limit);
    const AccountScope scope(account);
    try {
      train();
    } catch (const OutOfMemoryError& error) {
      return error.what();
    }
    return "";
  };
  const std::string alone = limited([&] {
    models::Dnn dnn(options);
    dnn.to(f64);
    nn::materialize(dnn, cpu(), 1);
    for (const dist::MicroBatch& batch : batches) dnn.loss(batch.inputs[0], batch.targets[0]).backward();
  });
  CHECK(alone.find(text("memory limit of ", limit, " bytes")) != std::string::npos);
  test::require_no_problems(4, [&](dist::World& world) {
    std::vector<std::string> problems;
    const std::string error = limited([&] {
      models::Dnn dnn(options);
      dnn.to(f64);
      dist::Pipeline pipeline(dnn, dnn.to_layered_model(), {.mesh = dist::pipeline_mesh(world, 4)});
      nn::materialize(dnn, cpu(), 1);
      pipeline.train_step(batches);
    });
    if (!error.empty()) problems.push_back(error);
    return problems;
  });
}

TEST_CASE("pipeline, memory: a stage without memory ends all ranks, with its action, bytes and advice") {
  // Each layer keeps one value of a live micro-batch. The limit has room for one micro-batch with all other
  // values, and not for two without any: wherever messages are when a stage computes, its second forward
  // fails.
  constexpr int64_t stages = 3, layers = 24, limit_values = layers + other_values + 6;
  static_assert(limit_values < 2 * layers - 2);
  std::string message;
  try {
    dist::launch(
        [](dist::World& world) {
          models::Dnn dnn({.layers = stages * layers, .width = width});
          dnn.to(f64);
          dist::Pipeline pipeline(dnn, dnn.to_layered_model(), {.mesh = dist::pipeline_mesh(world, stages)});
          nn::materialize(dnn, cpu(), 1);
          const auto batches = test::regression_batches(6, rows, width);
          pipeline.train_step(batches);  // the gradients are there
          if (world.rank() == 1)
            current_account()->set_limit(current_account()->total().current + limit_values * value_bytes);
          pipeline.train_step(batches);
        },
        {.virtual_ranks = stages, .timeout = std::chrono::seconds(60)});
  } catch (const OutOfMemoryError& error) {
    message = error.what();
  }
  INFO(message);
  CHECK(message.find("pipeline, 1F1 (stage 1, micro-batch 1): memory limit of ") != std::string::npos);
  CHECK(message.find("bytes") != std::string::npos);
  CHECK(message.find("this rank holds 2 micro-batches: activation checkpointing") != std::string::npos);
}
