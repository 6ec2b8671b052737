// Faults in a pipeline's step: exceptions in a layer, ranks that end, ranks that disagree. Every rank has an
// error that names the place, and none hangs.

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <typeinfo>

#include "models/dnn.h"
#include "nn/materialize.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/dist/fsdp/rank_errors.h"
#include "tests/dist/pipeline/run/step_comparison.h"
#include "tests/support/error_text.h"

using namespace tessera;
using dist::ScheduleKind;

namespace {

/// An exception of a program, with a member of its own.
struct ReaderFailure : std::exception {
  int line = 7;
  const char* what() const noexcept override { return "line 7 is broken"; }
};

/// Six linear layers. The third or fourth, which is in the second of three stages, calls `fault` in its
/// forward or backward.
class FaultyModel {
 public:
  FaultyModel(const std::function<void()>& in_forward, const std::function<void()>& in_backward) {
    dnn_.to(f64);
    layers_ = dnn_.to_layered_model();
    nn::LayerSpec& layer = layers_.layers[3];
    layer.run = [=, run = layer.run](const nn::LayerValues& values) {
      if (in_forward) in_forward();
      nn::LayerValues results = run(values);
      if (in_backward && results.at(0).requires_grad())
        results[0].register_hook([in_backward](const Variable&) { in_backward(); });
      return results;
    };
  }
  dist::Pipeline cut(dist::World& world, ScheduleKind kind) {
    return {dnn_, layers_, {.mesh = dist::pipeline_mesh(world, 3), .schedule = kind}};
  }
  void materialize() { nn::materialize(dnn_, cpu(), 1); }

 private:
  models::Dnn dnn_{{.layers = 6, .width = 4}};
  nn::LayeredModel layers_;
};

/// The errors of three ranks, of which the second stage throws in its call number `call`.
template <class Fault>
std::vector<std::string> errors_of_fault(ScheduleKind kind, bool is_forward, int call, const Fault& fault) {
  return test::errors_of(3, [&](dist::World& world) {
    int calls = 0;
    const auto throws = [&] {
      if (calls++ == call) throw fault;
    };
    FaultyModel model(is_forward ? throws : std::function<void()>(),
                      is_forward ? std::function<void()>() : throws);
    dist::Pipeline pipeline = model.cut(world, kind);
    model.materialize();
    try {
      pipeline.train_step(test::regression_batches(5));
    } catch (const std::exception& error) {
      // On the rank of the fault the type is kept.
      if (world.rank() == 1 && typeid(error) != typeid(Fault))
        throw std::logic_error(text("another type: ", error.what()));
      throw;
    }
  });
}

template <class Fault>
void require_errors(ScheduleKind kind, bool is_forward, const Fault& fault, const std::string& action,
                    int micro_batch) {
  const std::string place =
      text("pipeline, ", action, " (stage 1, micro-batch ", micro_batch, "): ", fault.what());
  const auto errors = errors_of_fault(kind, is_forward, micro_batch, fault);
  CHECK(errors[1] == place);
  for (const size_t rank : {0, 2}) {
    CAPTURE(errors[rank]);
    CHECK(contains(errors[rank], "rank 1 failed: " + place));
  }
}

}  // namespace

TEST_CASE("pipeline, faults: an exception in a layer ends all ranks with stage, action and micro-batch") {
  for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b}) {
    require_errors(kind, true, ValueError("broken"), "1F2", 2);
    require_errors(kind, false, ValueError("broken"), "1B0", 0);
    require_errors(kind, false, std::out_of_range("broken"), "1B3", 3);
  }
  require_errors(ScheduleKind::zb_h1, false, DataError("broken"), "1I1", 1);
  require_errors(ScheduleKind::one_f_one_b, true, CheckpointError("broken"), "1F0", 0);
  require_errors(ScheduleKind::one_f_one_b, true, std::invalid_argument("broken"), "1F4", 4);
}

TEST_CASE("pipeline, faults: an exception of the program's own type stays as it is") {
  const auto errors = errors_of_fault(ScheduleKind::one_f_one_b, true, 1, ReaderFailure());
  CHECK(errors[1] == "line 7 is broken");
  for (const size_t rank : {0, 2}) CHECK(contains(errors[rank], "rank 1 failed: line 7 is broken"));
}

TEST_CASE("pipeline, faults: a rank that ends, with an exception or without, is named by the others") {
  for (const bool throws : {false, true}) {
    const auto errors = test::errors_of(3, [&](dist::World& world) {
      FaultyModel model({}, {});
      dist::Pipeline pipeline = model.cut(world, ScheduleKind::one_f_one_b);
      model.materialize();
      pipeline.train_step(test::regression_batches(4));
      if (world.rank() == 1 && throws) throw std::runtime_error("out of disk");
      if (world.rank() == 1) return;
      pipeline.train_step(test::regression_batches(4));
    });
    for (const size_t rank : {0, 2}) {
      CAPTURE(errors[rank]);
      CHECK(contains(errors[rank], "rank 1"));
      CHECK(contains(errors[rank], throws ? "out of disk" : "ended its communication"));
    }
  }
}

TEST_CASE("pipeline, faults: a stuck stage is named with the action in which it is") {
  for (const bool is_forward : {true, false}) {
    std::atomic<bool> has_failed = false;
    std::vector<std::string> errors(3);
    const auto train = [&](dist::World& world) {
      int calls = 0;
      const auto sticks = [&] {
        if (calls++ != 2) return;
        for (int i = 0; i < 30'000 && !has_failed; ++i)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
      };
      FaultyModel model(is_forward ? sticks : std::function<void()>(),
                        is_forward ? std::function<void()>() : sticks);
      dist::Pipeline pipeline = model.cut(world, ScheduleKind::gpipe);
      model.materialize();
      try {
        pipeline.train_step(test::regression_batches(4));
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(world.rank())] = error.what();
        has_failed = true;
        throw;
      }
    };
    CHECK_THROWS_AS(dist::launch(train, {.virtual_ranks = 3, .timeout = std::chrono::milliseconds(1500)}),
                    dist::RankLostError);
    for (const size_t rank : {0, 2}) {
      CAPTURE(errors[rank]);
      CHECK(contains(errors[rank], "rank 1 is stuck: for 1.5 s it did nothing"));
      CHECK(contains(errors[rank], is_forward ? "; it was in 1F2 (stage 1, micro-batch 2)"
                                              : "; it was in 1B2 (stage 1, micro-batch 2)"));
    }
  }
}

TEST_CASE("pipeline, faults: another number of micro-batches is an error that names both, in every call") {
  using Call = std::function<void(dist::Pipeline&, const std::vector<dist::MicroBatch>&)>;
  for (const Call& call : std::vector<Call>{[](auto&pipeline, auto&batches) { pipeline.train_step(batches); },
                                            [](auto&pipeline, auto&batches) { pipeline.evaluate(batches); },
                                            [](auto&pipeline, auto&batches) { pipeline.forward(batches); }}) {
    std::atomic<int> mismatches = 0;
    const auto errors = test::errors_of(3, [&](dist::World& world) {
      FaultyModel model({}, {});
      dist::Pipeline pipeline = model.cut(world, ScheduleKind::one_f_one_b);
      model.materialize();
      try {
        call(pipeline, test::regression_batches(world.rank() == 1 ? 3 : 4));
      } catch (const dist::MismatchError& error) {
        mismatches += contains(error.what(), "step of 3 micro-batches") &&
                      contains(error.what(), "step of 4 micro-batches");
        throw;
      }
    });
    CHECK(mismatches >= 1);
    for (const std::string& error : errors) CHECK(error != "");
  }
}

TEST_CASE("pipeline, faults: copies of a stage with other numbers of micro-batches are an error") {
  const auto errors = test::errors_of(4, [&](dist::World& world) {
    models::Dnn dnn({.layers = 2, .width = 4});
    dnn.to(f64);
    const dist::Mesh mesh = dist::pipeline_mesh(world, 2);
    dist::Pipeline pipeline(dnn, dnn.to_layered_model(), {.mesh = mesh});
    pipeline.shard({.mesh = mesh, .strategy = dist::Strategy::no_shard});
    nn::materialize(dnn, cpu(), 1);
    pipeline.train_step(test::regression_batches(mesh.index("shard") == 0 ? 3 : 4));
  });
  int mismatches = 0;
  for (const std::string& error : errors)
    mismatches += contains(error, "step of 3 micro-batches") && contains(error, "step of 4 micro-batches");
  CHECK(mismatches >= 1);
}

TEST_CASE("pipeline, faults: after an exception that all ranks catch, a further step is an error") {
  test::require_no_problems(3, [](dist::World& world) {
    std::vector<std::string> problems;
    models::Dnn dnn({.layers = 6, .width = 4});
    dnn.to(f64);
    nn::LayeredModel layers = dnn.to_layered_model();
    // Each rank throws in the last forward before its first backward, of two layers a stage.
    bool fails = false;
    int calls = 0;
    for (nn::LayerSpec& layer : layers.layers)
      layer.run = [&, run = layer.run](const nn::LayerValues& values) {
        if (fails && ++calls == 6 - 2 * world.rank()) throw ValueError("broken");
        return run(values);
      };
    dist::Pipeline pipeline(dnn, layers, {.mesh = dist::pipeline_mesh(world, 3)});
    nn::materialize(dnn, cpu(), 1);
    const std::vector<dist::MicroBatch> batches = test::regression_batches(4);
    pipeline.train_step(batches);
    fails = true;
    const std::string broken = message_of<ValueError>([&] { pipeline.train_step(batches); });
    if (!contains(broken, "broken")) problems.push_back("no error: " + broken);
    fails = false;
    for (const std::string& refused : {message_of<ConfigError>([&] { pipeline.train_step(batches); }),
                                       message_of<ConfigError>([&] { pipeline.evaluate(batches); }),
                                       message_of<ConfigError>([&] { pipeline.forward(batches); })})
      if (!contains(refused, "an exception ended an earlier step")) problems.push_back(refused);
    // Other groups go on.
    world.communicator().barrier().wait();
    return problems;
  });
}

TEST_CASE("pipeline, faults: an error before the first message does not end the pipeline") {
  test::require_no_problems(2, [](dist::World& world) {
    std::vector<std::string> problems;
    models::Dnn dnn({.layers = 2, .width = 4});
    dnn.to(f64);
    dist::Pipeline pipeline(dnn, dnn.to_layered_model(), {.mesh = dist::pipeline_mesh(world, 2)});
    nn::materialize(dnn, cpu(), 1);
    const std::string refused = message_of<ConfigError>([&] { pipeline.train_step({}); });
    if (!contains(refused, "at least 1 micro-batch, got 0")) problems.push_back(refused);
    pipeline.train_step(test::regression_batches(2));
    return problems;
  });
}
