#include "dist/train/callbacks/prints/progress_printer.h"

#include <doctest/doctest.h>

#include <sstream>

#include "autograd/functions/elementwise/binary.h"
#include "tests/dist/train/callbacks/small_run.h"

using namespace small_run;

namespace {

/// Losses by batch: 1, 2, 3, 4 in the first epoch and 5, 6, 7, 8 in the second, on rank 1 10 more.
struct Scripted : Classifier {
  ManualClock& time;
  explicit Scripted(ManualClock& clock) : time(clock) {}
  Variable training_step(const data::Batch& batch, int64_t index) override {
    time.now += 1.5;
    const Variable loss = nn::cross_entropy((*this)(batch.x), batch.y);
    const auto wanted = static_cast<float>(trainer().current_epoch() * 4 + index + 1 + trainer().rank() * 10);
    return loss * 0.0f + wanted;
  }
  void validation_step(const data::Batch&, int64_t) override { log("val_loss", 0.123456); }
  void test_step(const data::Batch&, int64_t) override { log("test_loss", 2.5); }
};

std::string printed(TrainerOptions options, ProgressPrinterOptions printer, dist::World* world = nullptr) {
  std::ostringstream out;
  ManualClock time;
  printer.clock = time.read();
  Points data(world, 16);
  Scripted task(time);
  options.callbacks = {std::make_shared<ProgressPrinter>(out, printer)};
  options.world = world;
  Trainer trainer(std::move(options));
  trainer.fit(task, data);
  trainer.test(task, data);
  return out.str();
}

}  // namespace

TEST_CASE("progress printer: the lines of a run") {
  CHECK(printed({.max_epochs = 2}, {.every_batches = 2, .epoch_lines = true}) ==
        "[1/2; 2] loss: 1.50000\n"
        "[1/2; 4] loss: 3.50000\n"
        "[1/2; 4] valid loss: 0.12346\n"
        "Epoch: 1, Loss: 2.5\n"
        "[2/2; 2] loss: 5.50000\n"
        "[2/2; 4] loss: 7.50000\n"
        "[2/2; 4] valid loss: 0.12346\n"
        "Epoch: 2, Loss: 6.5\n"
        "Finished training after 12 seconds.\n"
        "Final test loss: 2.50000\n");
  CHECK(printed({.max_steps = 3, .limit_val_batches = 1}, {.every_batches = 3, .valid_loss = "other"}) ==
        "[1/?; 3] loss: 2.00000\n"
        "Finished training after 4.5 seconds.\n"
        "Final test loss: 2.50000\n");
  CHECK(printed({.max_epochs = 1}, {.every_batches = 0, .valid_loss = "", .test_loss = ""}) ==
        "Finished training after 6 seconds.\n");
}

TEST_CASE("progress printer: on ranks each line is printed once, with the mean of all") {
  test::require_no_problems(2, [](dist::World& world) -> std::vector<std::string> {
    const std::string lines = printed({.max_epochs = 1}, {.every_batches = 2, .epoch_lines = true}, &world);
    const std::string expected = world.rank() != 0 ? ""
                                                   : "[1/1; 2] loss: 6.50000\n"
                                                     "[1/1; 4] loss: 8.50000\n"
                                                     "[1/1; 4] valid loss: 0.12346\n"
                                                     "Epoch: 1, Loss: 7.5\n"
                                                     "Finished training after 6 seconds.\n"
                                                     "Final test loss: 2.50000\n";
    if (lines == expected) return {};
    return {lines};
  });
  std::ostringstream out;
  CHECK(contains(message_of<ConfigError>([&] { ProgressPrinter p(out, {.every_batches = -1}); }),
                 "every_batches -1"));
}
