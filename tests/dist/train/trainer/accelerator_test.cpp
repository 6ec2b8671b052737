// TrainerOptions::accelerator: the kind of device on which a run computes.
#include <doctest/doctest.h>

#include "dist/launch/launch.h"
#include "tensor/error.h"
#include "tests/dist/train/callbacks/small_run.h"

using namespace small_run;

namespace {

std::string error_of(TrainerOptions options) {
  options.max_steps = 1;
  return message_of<ConfigError>([&] { Trainer trainer(std::move(options)); });
}

}  // namespace

TEST_CASE("accelerator: cpu and auto compute on the CPU, with the same losses, on ranks too") {
  const auto loss = [](const std::string& accelerator, dist::World* world) {
    Points data(world);
    Classifier task;
    Trainer trainer({.max_steps = 2, .world = world, .accelerator = accelerator});
    CHECK(trainer.options().device.has_value() == (accelerator == "cpu"));
    trainer.fit(task, data);
    return trainer.logged().at("train_loss");
  };
  CHECK(loss("cpu", nullptr) == loss("auto", nullptr));
  dist::launch([&](dist::World& world) { CHECK(loss("cpu", &world) == loss("auto", &world)); },
               {.virtual_ranks = 1});
}

TEST_CASE("accelerator: a kind that the build does not have, and another name, are errors that say so") {
  CHECK(error_of({.accelerator = "tpu"}) == "Trainer: accelerator 'tpu': expected auto, cpu, gpu or cuda");
  if (!cuda_is_built())
    for (const std::string name : {"gpu", "cuda"})
      CHECK(error_of({.accelerator = name}) ==
            "Trainer: accelerator " + name + ": expected a build with CUDA, got one that has the CPU alone");
  CHECK(error_of({.device = cpu(), .accelerator = "cpu"}) == "(nothing was thrown)");
}

TEST_CASE("accelerator: a device of another kind is an error that names both") {
  const Device other{DeviceKind::cuda, 1};
  CHECK(error_of({.device = other, .accelerator = "cpu"}) ==
        "Trainer: accelerator cpu: expected the CPU, got the option device cuda:1");
  CHECK(error_of({.device = other}) == "(nothing was thrown)");
  dist::launch(
      [&](dist::World& ranks) {
        dist::World world(ranks.shared_communicator(), "host", 0, 1, other);
        CHECK(error_of({.world = &world, .accelerator = "cpu"}) ==
              "Trainer: accelerator cpu: expected the CPU, got ranks on cuda:1");
      },
      {.virtual_ranks = 1});
}
