// The point between the update and the removal of the gradients.
#include <doctest/doctest.h>

#include "autograd/functions/elementwise/binary.h"
#include "dist/train/trainer/trainer.h"
#include "tests/dist/train/callbacks/small_run.h"

using namespace small_run;

namespace {

float first_weight(const optim::Optimizer& optimizer) {
  return optimizer.parameters()[0].values().data<float>()[0];
}

bool has_gradient(const optim::Optimizer& optimizer) {
  return optimizer.parameters()[0].grad().defined();
}

struct Trace : Callback {
  std::string calls;
  std::vector<const optim::Optimizer*> optimizers;
  float before = 0;
  void on_before_backward(Trainer&, Task&, const Variable&) override { calls += "backward\n"; }
  void on_before_optimizer_step(Trainer& trainer, Task&) override {
    before = first_weight(trainer.engine().optimizer());
    calls += "step\n";
  }
  void on_before_zero_grad(Trainer&, Task&, optim::Optimizer& optimizer) override {
    optimizers.push_back(&optimizer);
    calls += "zero_grad";
    if (!has_gradient(optimizer)) calls += " without gradients";
    calls += first_weight(optimizer) == before ? ", not updated\n" : ", updated\n";
  }
  void on_train_batch_end(Trainer& trainer, Task&, const data::Batch&, int64_t) override {
    calls += has_gradient(trainer.engine().optimizer()) ? "batch end with gradients\n" : "batch end\n";
  }
};

}  // namespace

TEST_CASE("on_before_zero_grad: after the update, while the gradients are there, once a step") {
  const auto trace = std::make_shared<Trace>();
  Points data;
  Classifier task;
  Trainer trainer({.max_steps = 1, .accumulate = 2, .callbacks = {trace}});
  trainer.fit(task, data);
  CHECK(trace->calls ==
        "backward\nbatch end with gradients\n"
        "backward\nstep\nzero_grad, updated\nbatch end\n");
}

TEST_CASE("on_before_zero_grad: also of a step that loss scaling skips") {
  struct Overflow : Classifier {
    Variable training_step(const data::Batch& batch, int64_t index) override {
      return Classifier::training_step(batch, index) * 1e30f;
    }
  };
  const auto trace = std::make_shared<Trace>();
  Points data;
  Overflow task;
  Trainer trainer({.max_steps = 1, .precision = PrecisionMode::f16, .callbacks = {trace}});
  trainer.fit(task, data);
  CHECK(trace->calls == "backward\nstep\nzero_grad, not updated\nbatch end\n");
}

TEST_CASE("on_before_zero_grad: of each part in manual optimization, with its optimizer") {
  struct Parts : Classifier {
    bool automatic_optimization() const override { return false; }
    std::vector<Part> configure_parts() override {
      const auto sgd = [](const ParameterList& parameters) {
        return OptimizerSetup{std::make_unique<optim::SGD>(parameters, 0.5)};
      };
      return {{"first", first, sgd}, {"second", second, sgd}};
    }
    std::vector<const optim::Optimizer*> expected;
    Variable training_step(const data::Batch& batch, int64_t) override {
      ManualOptimization& manual = trainer().manual();
      for (const int part : {0, 1, 1}) {
        expected.push_back(&manual.engine(part).optimizer());
        manual.optimize(part, [&] { return nn::cross_entropy((*this)(batch.x), batch.y); });
      }
      return {};
    }
  };
  const auto trace = std::make_shared<Trace>();
  Points data;
  Parts task;
  Trainer trainer({.max_steps = 2, .callbacks = {trace}});
  trainer.fit(task, data);
  CHECK(trace->optimizers.size() == 6);
  CHECK(trace->optimizers == task.expected);
  CHECK(contains(trace->calls, "backward\nstep\nzero_grad, updated\nbackward\nstep\nzero_grad, updated\n"));
}
