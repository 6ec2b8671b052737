#include "tools/gptlite/command_line.h"

#include <CLI/CLI.hpp>

#include "tools/cli/program.h"
#include "tools/gptlite/commands.h"
#include "tools/gptlite/train.h"

namespace tessera::gptlite {

int run_command_line(int argc, const char* const* argv, Console console, std::ostream& err) {
  CLI::App app("Trains GPT-lite on characters, and writes with it", "gptlite");
  app.require_subcommand(1);
  TrainFlags train_flags;
  SampleFlags sample_flags;
  EvalFlags eval_flags;
  InfoFlags info_flags;

  CLI::App& train_command = *app.add_subcommand("train", "train a model, or go on with one");
  add_train_flags(train_command, train_flags);
  train_command.callback([&] {
    train_flags.given = given_flags(train_command);
    if (const int status = train(train_flags, console)) throw CLI::RuntimeError(status);
  });
  CLI::App& sample_command = *app.add_subcommand("sample", "write text from a checkpoint");
  add_sample_flags(sample_command, sample_flags);
  sample_command.callback([&] { run_sample(sample_flags, console); });
  CLI::App& eval_command = *app.add_subcommand("eval", "a checkpoint's validation loss");
  add_eval_flags(eval_command, eval_flags);
  eval_command.callback([&] { run_eval(eval_flags, console); });
  CLI::App& info_command = *app.add_subcommand("info", "a model's size and cost, without allocating it");
  add_info_flags(info_command, info_flags);
  info_command.callback([&] { run_info(info_flags, console); });
  return tools::run_program(app, argc, argv, console.out, err);
}

}  // namespace tessera::gptlite
