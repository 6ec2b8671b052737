#include "dist/train/config/field_table.h"

#include <algorithm>

#include "tensor/error.h"
#include "tensor/nearest_name.h"

namespace tessera::training {
namespace {

/// Text of a cell of a table in Markdown.
std::string cell(const std::string& value) {
  std::string out;
  for (const char c : value) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

}  // namespace

void throw_unknown(const std::string& place, std::string_view name, const std::vector<std::string>& names) {
  const std::string near = nearest_name(name, names);
  throw ConfigError(text(place, ": there is no option '", name, "'", near.empty() ? "" : "; the nearest is '",
                         near, near.empty() ? "" : "'"));
}

void set_saved(const FieldInfo& info, const FieldPointer& at, const std::map<std::string, std::string>& saved,
               const std::string& place) {
  const auto found = saved.find(info.name);
  require<CheckpointError>(found != saved.end(), place, ": expected the field '", info.name,
                           "', found none: a checkpoint of another program, or of another version");
  try {
    set_text(info, at, found->second, text("'", info.name, "'"));
  } catch (const ConfigError& error) {
    throw CheckpointError(text(place, ": ", error.what()));
  }
}

void require_same_text(const FieldInfo& info, const std::string& before, const std::string& now,
                       const std::string& place) {
  require<CheckpointError>(before == now, place, ": this run began with ", info.name, " ", before,
                           ", the options give ", now,
                           ": leave it out to resume the run, or begin another run in another folder");
}

std::string explain(const std::vector<FieldValue>& values, bool all) {
  size_t name_width = 0, value_width = 0;
  const auto shown = [](const FieldValue& field) {
    const std::string value = field.value.empty() ? "none" : field.value;
    return *field.info.unit ? value + " " + field.info.unit : value;
  };
  for (const FieldValue& field : values) {
    name_width = std::max(name_width, std::string_view(field.info.name).size());
    value_width = std::max(value_width, std::min<size_t>(shown(field).size(), 40));
  }
  std::string out;
  for (const FieldValue& field : values) {
    if (!all && field.origin.source == Source::standard) continue;
    std::string line = field.info.name;
    line.resize(name_width + 2, ' ');
    line += shown(field);
    line.resize(std::max(line.size(), name_width + 2 + value_width), ' ');
    out += line + "  " + to_string(field.origin) + "\n";
  }
  return out;
}

std::string to_json(const std::vector<FieldValue>& values) {
  std::string out = "{";
  for (const FieldValue& field : values)
    out += text(out == "{" ? "\n" : ",\n", "  \"", field.info.name, "\": ", field.json);
  return out + "\n}\n";
}

std::string reference_page(const std::vector<FieldValue>& values) {
  std::string out = "| name | flag | default | takes | what it is |\n| --- | --- | --- | --- | --- |\n";
  for (const FieldValue& field : values)
    out += text("| `", field.info.name, "` | `", flag_of(field.info.name), "` | ",
                field.initial.empty() ? std::string("none") : "`" + field.initial + "`", " | ",
                cell(field.expected), *field.info.unit ? text(", in ", field.info.unit) : "", " | ",
                cell(field.info.help), " |\n");
  return out;
}

}  // namespace tessera::training
