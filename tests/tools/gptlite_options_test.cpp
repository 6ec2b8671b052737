// The tables of gptlite's options.
#include "tools/gptlite/options.h"

#include <doctest/doctest.h>

#include <set>

#include "dist/train/config/shared_options.h"
#include "dist/train/config/training_fields.h"
#include "dist/train/trainer/trainer_arguments.h"
#include "tensor/error.h"
#include "tests/support/error_text.h"
#include "tools/gptlite/resolve.h"

using namespace tessera;

TEST_CASE("gptlite's options: a name that the library's tables have is described there") {
  std::set<std::string> library;
  for (const std::string& name : training::training_fields().names()) library.insert(name);
  for (const std::string& name : training::trainer_fields().names()) library.insert(name);
  int shared = 0;
  for (const auto& field : gptlite::train_fields().fields()) {
    if (!library.contains(field.info.name)) continue;
    const training::FieldInfo& row = training::shared_option(field.info.name);  // throws without a row
    CHECK_MESSAGE((field.info.on_resume == row.on_resume), row.name);
    ++shared;
  }
  CHECK(shared > 10);
}

TEST_CASE("gptlite's options: what a checkpoint keeps") {
  std::set<std::string> kept;
  for (const auto& field : gptlite::train_fields().fields())
    if (field.info.on_resume != training::OnResume::not_saved) kept.insert(field.info.name);
  CHECK(kept == std::set<std::string>{"vocabulary",
                                      "n_layer",
                                      "n_head",
                                      "n_embd",
                                      "block_size",
                                      "dropout",
                                      "bias",
                                      "qkv_bias",
                                      "tie_weights",
                                      "preset",
                                      "steps",
                                      "batch_size",
                                      "lr",
                                      "min_lr",
                                      "warmup_steps",
                                      "weight_decay",
                                      "beta1",
                                      "beta2",
                                      "grad_clip",
                                      "dataset",
                                      "data",
                                      "micro_batch_size",
                                      "seed",
                                      "dtype",
                                      "eps",
                                      "scheduler",
                                      "loss_scale",
                                      "initial_scale_power",
                                      "loss_scale_window",
                                      "hysteresis",
                                      "consecutive_hysteresis",
                                      "min_loss_scale"});
}

TEST_CASE("gptlite's options: a checkpoint of before an option has its default") {
  dist::TrainingState state;
  for (const auto& [name, value] : gptlite::resolve_run({}, 65).record())
    (gptlite::model_fields().find(name) ? state.model : state.run)[name] = value;
  state.run["eps"] = "0.5";
  CHECK(gptlite::read_run(state, "folder")->run.eps == 0.5);
  for (const char* name : {"eps", "scheduler", "loss_scale", "initial_scale_power", "loss_scale_window",
                           "hysteresis", "consecutive_hysteresis", "min_loss_scale"})
    REQUIRE(state.run.erase(name) == 1);
  const gptlite::TrainConfiguration before = gptlite::read_run(state, "folder");
  CHECK(before->run.eps == 1e-8);
  CHECK(before->run.scheduler.empty());
  CHECK(before->run.scaler.initial_scale_power == 16);
  state.run.erase("lr");
  CHECK(contains(message_of<CheckpointError>([&] { gptlite::read_run(state, "folder"); }),
                 "folder: expected the field 'lr', found none"));
}
