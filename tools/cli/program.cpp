#include "tools/cli/program.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "tensor/nearest_name.h"
#include "tools/cli/exit_status.h"

namespace tessera::tools {
namespace {

/// The program and the chosen subcommands, outermost first.
std::vector<CLI::App*> chosen_commands(CLI::App& app) {
  std::vector<CLI::App*> chain{&app};
  while (!chain.back()->get_subcommands().empty()) chain.push_back(chain.back()->get_subcommands().front());
  return chain;
}

std::vector<std::string> known_flags(CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::vector<std::string> known_subcommands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands(nullptr)) names.push_back(sub->get_name());
  return names;
}

/// The message for an argument that `app` does not have, with the nearest one that it has.
std::string explain_unknown(CLI::App& app, const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  const bool flag = name.rfind('-', 0) == 0;
  const std::vector<std::string> known = flag ? known_flags(app) : known_subcommands(app);
  const std::string near = nearest_name(name, known);
  std::string line = (flag ? "unknown flag '" : "unexpected argument '") + name + "'";
  if (!near.empty()) line += "; did you mean '" + near + "'?";
  return line;
}

std::string explain(CLI::App& app, const CLI::ParseError& error) {
  for (CLI::App* command : chosen_commands(app)) {
    const std::vector<std::string> unknown = command->remaining();
    if (!unknown.empty()) return explain_unknown(*command, unknown.front());
  }
  return error.what();
}

std::string one_line(std::string message) {
  while (!message.empty() && message.back() == '\n') message.pop_back();
  std::replace(message.begin(), message.end(), '\n', ' ');
  return message;
}

}  // namespace

int run_program(CLI::App& app, int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  auto report = [&](const std::string& message) {
    err << app.get_name() << ": " << one_line(message) << std::endl;
  };
  try {
    app.parse(argc, argv);
    return exit_done;
  } catch (const CLI::RuntimeError& status) {
    return status.get_exit_code();
  } catch (const CLI::Success& help) {
    return app.exit(help, out, err);
  } catch (const CLI::ParseError& error) {
    std::string help = app.get_name();
    for (CLI::App* command : chosen_commands(app))
      if (command != &app) help += " " + command->get_name();
    report(explain(app, error) + " (see " + help + " --help)");
    return exit_bad_arguments;
  } catch (const std::exception& error) {
    report(error.what());
    return exit_status(error);
  }
}

}  // namespace tessera::tools
