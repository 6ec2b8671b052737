#include "dist/state/strict_json.h"

#include <json/json.h>

#include <algorithm>
#include <memory>

#include "tensor/error.h"

namespace tessera::dist {
namespace {

/// jsoncpp lets comments inside objects pass even in its strict mode.
bool has_comment(const std::string& json) {
  bool quoted = false;
  for (size_t i = 0; i < json.size(); ++i) {
    if (quoted && json[i] == '\\') {
      ++i;
    } else if (json[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && json[i] == '/') {
      return true;
    }
  }
  return false;
}

std::string one_line(std::string message) {
  while (!message.empty() && message.back() == '\n') message.pop_back();
  std::replace(message.begin(), message.end(), '\n', ' ');
  return message;
}

}  // namespace

void parse_strict_json(const std::string& json, const std::string& where, Json::Value& root) {
  Json::CharReaderBuilder builder;
  Json::CharReaderBuilder::strictMode(&builder.settings_);
  const std::unique_ptr<Json::CharReader> reader(builder.newCharReader());
  std::string problem;
  bool good = false;
  try {
    good = reader->parse(json.data(), json.data() + json.size(), &root, &problem);
  } catch (const Json::Exception& error) {  // nested too deeply
    problem = error.what();
  }
  require<CheckpointError>(good, where, ": not strict JSON: ", one_line(problem));
  require<CheckpointError>(root.isObject(), where, ": expected a JSON object");
  require<CheckpointError>(!has_comment(json), where, ": not strict JSON: it has a comment");
}

}  // namespace tessera::dist
