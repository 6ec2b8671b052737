#pragma once

#include <string>

namespace Json {
class Value;
}

namespace tessera::dist {

/// Reads one JSON object and nothing else: no comments, no trailing commas, no key twice, no special floats.
/// Throws CheckpointError naming `where` and the place in the text.
void parse_strict_json(const std::string& json, const std::string& where, Json::Value& root);

}  // namespace tessera::dist
