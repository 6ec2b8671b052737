#include "tools/gptlite/command_line.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <ostream>
#include <thread>

#include "tensor/error.h"
#include "tools/cli/exit_status.h"
#include "tools/cli/program.h"
#include "tools/gptlite/commands.h"
#include "tools/gptlite/spellings.h"

namespace tessera::gptlite {
namespace {

/// This process's rank in its launcher's job; 0 where the job cannot be read, an error that `train` reports.
int rank_in_job() {
  try {
    return dist::launcher_job().rank;
  } catch (const ConfigError&) {
    return 0;
  }
}

}  // namespace

int run_command_line(int argc, const char* const* argv, Console console, std::ostream& err) {
  CLI::App app("Trains GPT-lite on characters, and samples from it", "gptlite");
  app.require_subcommand(1);
  TrainCommand train_arguments;
  CLI::App& train_command = *app.add_subcommand("train", "train a model, or resume a run");
  const training::FieldFlags train_fields(train_command, train_flags());
  train_command
      .add_option("--config", train_arguments.config_file,
                  "configuration of DeepSpeed, in JSON: its keys set these options; a flag given too wins")
      ->type_name("a file");
  train_command.add_flag("--explain", train_arguments.explain,
                         "print all options with their origins and what would run, and stop");
  // All ranks have the same arguments: rank 0 prints their errors. After parsing, every rank prints its own.
  std::ostream rank_err(rank_in_job() == 0 ? err.rdbuf() : nullptr);
  train_command.callback([&] {
    rank_err.rdbuf(err.rdbuf());
    train_arguments.flags = train_fields.given();
    train_arguments.job = dist::launcher_job();
    if (const int status = train(train_arguments, console)) throw CLI::RuntimeError(status);
  });
  CLI::App& sample_command = *app.add_subcommand("sample", "write text from a checkpoint");
  const training::FieldFlags sample_flags(sample_command,
                                          training::Resolved<SampleOptions>(sample_fields()).values());
  sample_command.callback([&] { run_sample(sample_flags.given(), console); });
  CLI::App& eval_command = *app.add_subcommand("eval", "a checkpoint's validation loss");
  const training::FieldFlags eval_flags(eval_command,
                                        training::Resolved<EvalOptions>(eval_fields()).values());
  eval_command.callback([&] { run_eval(eval_flags.given(), console); });
  CLI::App& info_command = *app.add_subcommand("info", "a model's size and cost, without allocating it");
  const training::FieldFlags info_flags(info_command, step_flags());
  info_command.callback([&] { run_info(info_flags.given(), console); });
  const std::vector<std::string> arguments = with_own_spellings(argc, argv);
  std::vector<const char*> words;
  for (const std::string& argument : arguments) words.push_back(argument.c_str());
  const int status =
      tools::run_program(app, static_cast<int>(std::ssize(words)), words.data(), console.out, rank_err);
  // mpirun may drop what a rank prints just before it ends with an error.
  if (status != tools::exit_done && !train_arguments.job.launcher.empty())
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  return status;
}

}  // namespace tessera::gptlite
