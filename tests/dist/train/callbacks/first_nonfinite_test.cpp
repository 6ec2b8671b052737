#include "dist/train/callbacks/first_nonfinite.h"

#include <doctest/doctest.h>

#include <limits>

#include "tensor/error.h"
#include "tensor/ops/creation/creation.h"
#include "tests/dist/train/callbacks/small_run.h"

using namespace small_run;

namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// Makes a value of the model NaN after the given steps.
struct Spoiler : Callback {
  int64_t steps;
  Tensor (*value)(Classifier&);
  Spoiler(int64_t n, Tensor (*chosen)(Classifier&)) : steps(n), value(chosen) {}
  void on_train_batch_start(Trainer& trainer, Task& task, const data::Batch&, int64_t) override {
    if (trainer.global_step() == steps) value(static_cast<Classifier&>(task)).data<float>()[0] = not_a_number;
  }
};

std::string message_of_run(std::vector<std::shared_ptr<Callback>> callbacks, Classifier& task,
                           dist::World* world = nullptr) {
  return message_of<NonFiniteError>([&] {
    Points data(world);
    Trainer trainer({.max_epochs = 2, .callbacks = std::move(callbacks), .world = world});
    trainer.fit(task, data);
  });
}

}  // namespace

TEST_CASE(
    "first non-finite: the innermost module's output, with its step, and whether its inputs were finite") {
  Classifier task;
  const auto spoiler = std::make_shared<Spoiler>(
      4, +[](Classifier& net) { return net.second.weight.value(); });
  const auto finder = std::make_shared<FirstNonFinite>();
  CHECK(message_of_run({finder, spoiler}, task) ==
        "FirstNonFinite: step 5: the output of 'second' is not finite, and its inputs are finite");
  CHECK(finder->found() == "step 5: the output of 'second' is not finite, and its inputs are finite");
  task.second.weight.value().data<float>()[0] = 0;
  task(Variable(ops::full({1, 4}, not_a_number, f32)));  // the hooks are removed
}

TEST_CASE("first non-finite: inputs that are not finite, without an exception") {
  struct Bad : Classifier {
    Variable training_step(const data::Batch& batch, int64_t index) override {
      const Variable loss = Classifier::training_step(batch, index);
      if (trainer().global_step() == 2) (void)(*this)(Variable(ops::full({4, 4}, not_a_number, f32)));
      return loss;
    }
  };
  Bad task;
  const auto finder = std::make_shared<FirstNonFinite>(FirstNonFiniteOptions{.throws = false});
  CHECK(message_of_run({finder}, task) == "(nothing was thrown)");
  CHECK(finder->found() == "step 3: the output of 'first' is not finite, and neither are its inputs");
}

TEST_CASE("first non-finite: a parameter after a step or before the first, on all ranks") {
  const auto after_a_step = [](dist::World* world) {
    struct Spoil : Callback {
      int rank;
      explicit Spoil(int of) : rank(of) {}
      void on_train_batch_end(Trainer& trainer, Task&, const data::Batch&, int64_t) override {
        const ParameterList& parameters = trainer.engine().optimizer().parameters();
        if (trainer.global_step() != 2 || trainer.rank() != rank) return;
        for (const NamedParameter& parameter : parameters)
          if (parameter.name == "second.weight" && parameter.values().numel() > 0)
            parameter.values().data<float>()[0] = not_a_number;
      }
    };
    Classifier task;
    return message_of_run({std::make_shared<Spoil>(world ? 1 : 0),
                           std::make_shared<FirstNonFinite>(FirstNonFiniteOptions{.outputs = false})},
                          task, world);
  };
  CHECK(after_a_step(nullptr) == "FirstNonFinite: after step 2: the parameter 'second.weight' is not finite");
  test::require_no_problems(2, [&](dist::World& world) -> std::vector<std::string> {
    const std::string message = after_a_step(&world);
    if (message == "FirstNonFinite: after step 2: the parameter 'second.weight' on rank 1 is not finite")
      return {};
    return {message};
  });
  struct Early : Callback {
    void on_fit_start(Trainer&, Task& task) override {
      static_cast<Classifier&>(task).first.weight.value().data<float>()[3] = not_a_number;
    }
  };
  Classifier task;
  CHECK(message_of_run({std::make_shared<Early>(), std::make_shared<FirstNonFinite>()}, task) ==
        "FirstNonFinite: before the first step: the parameter 'first.weight' is not finite");
}
