#include <tessera/version.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "tools/cli/program.h"
#include "tools/tessera/checkpoint_commands.h"
#include "tools/tessera/doctor.h"
#include "tools/tessera/sharded_step.h"

using namespace tessera::tools;

int main(int argc, char** argv) {
  CLI::App app("Inspects checkpoints, this build and this machine.", "tessera");
  app.set_version_flag("--version", TESSERA_VERSION);
  app.require_subcommand(1);

  CLI::App* checkpoint = app.add_subcommand("checkpoint", "Inspects saved checkpoints");
  checkpoint->require_subcommand(1);
  std::string path, output = "model.safetensors";
  auto add = [&](const char* name, const char* description) {
    CLI::App* command = checkpoint->add_subcommand(name, description);
    command
        ->add_option("checkpoint", path,
                     "A checkpoint's folder, a run's folder (its latest checkpoint), or its file `best`")
        ->required();
    return command;
  };
  add("inspect", "Prints step, options, files with their hashes, and every tensor")->callback([&] {
    inspect_checkpoint(path, std::cout);
  });
  add("verify", "Reads every file, and compares its hash; looks for NaN")->callback([&] {
    verify_checkpoint(path, std::cout);
  });
  CLI::App* consolidate =
      add("consolidate", "Writes the model into one file that PyTorch's safetensors loads");
  consolidate->add_option("--out", output, "The file to write")->capture_default_str();
  bool replaces = false;
  consolidate->add_flag("--force", replaces,
                        "Replaces any existing file, not only one that this command wrote");
  consolidate->callback([&] { consolidate_checkpoint(path, output, replaces, std::cout); });

  app.add_subcommand("doctor", "Prints what was found at build time and on this machine, and what is missing")
      ->callback([] { std::cout << report(examine()); });

  ShardedStepOptions step;
  CLI::App* sharded = app.add_subcommand(
      "sharded-step",
      "Shows one step of a small GPT on ranks that are threads: its calls, their bytes, and a timeline");
  sharded->add_option("--strategy", step.strategy, "no_shard, shard_optim, shard_grad_op or full_shard")
      ->capture_default_str();
  sharded->add_option("--ranks", step.ranks)->capture_default_str();
  sharded->add_option("--layers", step.layers)->capture_default_str();
  sharded->add_option("--width", step.width, "a multiple of 4")->capture_default_str();
  sharded->add_option("--batch-size", step.batch_size, "sequences of 64 tokens, of each rank")
      ->capture_default_str();
  sharded->add_option("--svg", step.svg, "The file for the timeline, a picture in SVG");
  sharded->callback([&] { show_sharded_step(step, std::cout); });

  return run_program(app, argc, argv, std::cout, std::cerr);
}
