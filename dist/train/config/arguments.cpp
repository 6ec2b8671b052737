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

FieldFlags::FieldFlags(CLI::App& command, std::vector<FieldValue> fields)
    : fields_(std::move(fields)), texts_(fields_.size()) {
  for (size_t i = 0; i < fields_.size(); ++i) {
    const FieldValue& field = fields_[i];
    const std::string initial = field.initial.empty() ? "none" : field.initial;
    CLI::Option* const option = command
                                    .add_option(flag_of(field.info.name), texts_[i],
                                                text(field.info.help, " (default: ", initial, ")"))
                                    ->type_name(field.expected)
                                    ->take_last();
    if (is_flag(field)) option->expected(0, 1)->default_str("true");
  }
}

GivenValues FieldFlags::given() const {
  GivenValues values;
  for (size_t i = 0; i < fields_.size(); ++i)
    if (texts_[i])
      values.emplace_back(fields_[i].info.name,
                          texts_[i]->empty() && is_flag(fields_[i]) ? "true" : *texts_[i]);
  return values;
}

Arguments parse_arguments(const std::vector<FieldValue>& fields, const std::string& program,
                          std::vector<std::string> arguments) {
  CLI::App app("", program);
  std::vector<std::string> flags{"--config", "--explain", "--help"};
  for (const FieldValue& field : fields) flags.push_back(flag_of(field.info.name));
  const FieldFlags field_flags(app, fields);
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
  parsed.values = field_flags.given();
  return parsed;
}

}  // namespace tessera::training
