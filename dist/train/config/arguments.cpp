#include "dist/train/config/arguments.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <optional>

#include "tensor/error.h"
#include "tensor/nearest_name.h"

namespace tessera::training {
namespace {

bool is_flag(const FieldValue& field) {
  return field.json == "true" || field.json == "false";
}

}  // namespace

Arguments parse_arguments(const std::vector<FieldValue>& fields, const std::vector<std::string>& expected,
                          const std::string& program, std::vector<std::string> arguments) {
  CLI::App app("", program);
  std::vector<std::optional<std::string>> given(fields.size());
  std::vector<std::string> flags{"--config", "--explain", "--help"};
  for (size_t i = 0; i < fields.size(); ++i) {
    flags.push_back(flag_of(fields[i].info.name));
    const std::string initial = fields[i].initial.empty() ? "none" : fields[i].initial;
    CLI::Option* const option =
        app.add_option(flags.back(), given[i], text(fields[i].info.help, " (default: ", initial, ")"))
            ->type_name(expected[i])
            ->take_last();
    if (is_flag(fields[i])) option->expected(0, 1)->default_str("true");
  }
  Arguments parsed;
  app.add_option("--config", parsed.config_file, "file of values by name, in JSON; flags take precedence")
      ->type_name("a file");
  app.add_flag("--explain", parsed.explain, "print all values with their origins, and stop");

  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    return {.values = {}, .config_file = {}, .explain = false, .help = app.help()};
  } catch (const CLI::ExtrasError&) {
    const std::vector<std::string> extras = app.remaining();
    const std::string first = extras.empty() ? "" : extras.front().substr(0, extras.front().find('='));
    const std::string near = nearest_name(first, flags);
    throw ConfigError(
        text(program, ": unexpected argument '", first, "'", near.empty() ? "" : "; the nearest is ", near));
  } catch (const CLI::Error& error) {
    throw ConfigError(text(program, ": ", error.what()));
  }
  for (size_t i = 0; i < fields.size(); ++i)
    if (given[i]) parsed.values.emplace_back(fields[i].info.name, given[i]->empty() ? "true" : *given[i]);
  return parsed;
}

}  // namespace tessera::training
