#include "dist/train/config/json_document.h"

#include <json/json.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "tensor/error.h"

namespace tessera::training {
namespace {

constexpr int64_t max_bytes = int64_t{16} << 20;
constexpr size_t max_shown = 60;  // letters of a value in a message
constexpr int max_levels = 64;

Json::CharReaderBuilder reader() {
  Json::CharReaderBuilder builder;
  builder["allowComments"] = true;
  builder["allowTrailingCommas"] = true;
  builder["strictRoot"] = false;
  builder["rejectDupKeys"] = true;
  builder["allowSpecialFloats"] = false;
  builder["failIfExtra"] = true;
  builder["skipBom"] = true;
  builder["stackLimit"] = max_levels;
  return builder;
}

/// jsoncpp's first message on one line: "* Line 3, Column 7\n  Duplicate key: 'a'\n" as "line 3: Duplicate
/// key: 'a'".
std::string first_problem(const std::string& errors) {
  const size_t line = errors.find("Line "), comma = errors.find(',', line), problem = errors.find('\n', line);
  if (line == std::string::npos || comma == std::string::npos || problem == std::string::npos) return errors;
  const size_t begin = errors.find_first_not_of(" \n", problem), end = errors.find('\n', begin);
  std::string what = begin == std::string::npos ? "" : errors.substr(begin, end - begin);
  if (what.starts_with("Duplicate key: ")) what = text("the key ", what.substr(15), " is there twice");
  return text("line ", errors.substr(line + 5, comma - line - 5), ": ", what);
}

/// Whether a number of the document is infinite: 1e999.
void require_finite(const Json::Value& value, const JsonDocument& document) {
  if (value.isDouble())
    require<ConfigError>(std::isfinite(value.asDouble()), document.name(), ":",
                         document.line_of(static_cast<size_t>(value.getOffsetStart())),
                         ": expected a finite number, got one that f64 cannot represent");
  if (value.isArray() || value.isObject())
    for (const Json::Value& part : value) require_finite(part, document);
}

}  // namespace

std::string JsonNode::kind() const {
  if (is_table()) return "a table";
  if (is_list()) return "a list";
  if (is_text()) return "a text";
  if (is_bool()) return "true or false";
  return is_number() ? "a number" : "null";
}

bool JsonNode::is_table() const {
  return value_->isObject();
}
bool JsonNode::is_list() const {
  return value_->isArray();
}
bool JsonNode::is_text() const {
  return value_->isString();
}
bool JsonNode::is_number() const {
  return value_->isNumeric() && !value_->isBool();
}
bool JsonNode::is_bool() const {
  return value_->isBool();
}
bool JsonNode::is(std::string_view text) const {
  return is_text() && value_->asString() == text;
}

const std::string& JsonNode::document_name() const {
  return document_->name();
}
std::string JsonNode::file_and_line() const {
  return text(document_->name(), ":", document_->line_of(static_cast<size_t>(value_->getOffsetStart())));
}
std::string JsonNode::place() const {
  return path_.empty() ? file_and_line() : file_and_line() + ": " + path_;
}

std::string JsonNode::given() const {
  Json::StreamWriterBuilder builder;
  builder["indentation"] = "";
  builder["precision"] = 17;
  builder["emitUTF8"] = true;
  std::string json = Json::writeString(builder, *value_);
  std::erase(json, '\n');
  if (json.size() > max_shown) {
    json.resize(max_shown);
    json += "...";
  }
  return json;
}

void JsonNode::fail(const std::string& expected) const {
  throw ConfigError(text(place(), ": expected ", expected, ", got ", given()));
}

bool JsonNode::as_bool() const {
  if (!is_bool()) fail("true or false");
  return value_->asBool();
}

int64_t JsonNode::as_integer() const {
  if (!is_number()) fail("a whole number");
  if (value_->isInt64()) return value_->asInt64();
  const double number = value_->asDouble();
  if (number != std::floor(number) || std::abs(number) > 0x1p53) fail("a whole number of at most 2^53");
  return static_cast<int64_t>(number);
}

double JsonNode::as_number() const {
  if (!is_number()) fail("a number");
  return value_->asDouble();
}

std::string JsonNode::as_text() const {
  if (!is_text()) fail("a text");
  return value_->asString();
}

std::vector<std::pair<std::string, JsonNode>> JsonNode::members() const {
  if (!is_table()) fail("a table, {...}");
  std::vector<std::pair<std::string, JsonNode>> all;
  for (const std::string& key : value_->getMemberNames())
    all.emplace_back(key, JsonNode(document_, &(*value_)[key], path_.empty() ? key : path_ + "." + key));
  // jsoncpp sorts keys by name; messages and warnings follow the text.
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.second.value_->getOffsetStart() < b.second.value_->getOffsetStart();
  });
  return all;
}

std::optional<JsonNode> JsonNode::find(std::string_view key) const {
  if (is_table())
    for (const auto& [name, value] : members())
      if (name == key) return value;
  return std::nullopt;
}

std::vector<JsonNode> JsonNode::elements() const {
  if (!is_list()) fail("a list, [...]");
  std::vector<JsonNode> all;
  for (Json::ArrayIndex i = 0; i < value_->size(); ++i)
    all.push_back(JsonNode(document_, &(*value_)[i], text(path_, "[", i, "]")));
  return all;
}

JsonDocument::JsonDocument(std::string text, std::string name)
    : text_(std::move(text)), name_(std::move(name)), root_(std::make_unique<Json::Value>()) {}
JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument& JsonDocument::operator=(JsonDocument&&) noexcept = default;
JsonDocument::~JsonDocument() = default;

JsonDocument JsonDocument::parse(std::string text, std::string name) {
  JsonDocument document(std::move(text), std::move(name));
  const std::unique_ptr<Json::CharReader> parser(reader().newCharReader());
  std::string errors;
  const char* const begin = document.text_.data();
  bool parsed = false;
  try {
    parsed = parser->parse(begin, begin + document.text_.size(), document.root_.get(), &errors);
  } catch (const Json::Exception& error) {  // too many levels
    errors = error.what();
  }
  require<ConfigError>(parsed, document.name_, ": not a configuration in JSON: ",
                       errors.find("tackLimit") == std::string::npos
                           ? first_problem(errors)
                           : tessera::text("more than ", max_levels, " levels"));
  require_finite(*document.root_, document);
  return document;
}

JsonDocument JsonDocument::read(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  require<ConfigError>(!error && std::filesystem::exists(status), path,
                       ": expected a configuration file, there is none");
  require<ConfigError>(std::filesystem::is_regular_file(status), path,
                       ": expected a configuration file, this is no regular file");
  const auto bytes = std::filesystem::file_size(path, error);
  require<ConfigError>(!error && static_cast<int64_t>(bytes) <= max_bytes, path,
                       ": expected a configuration file of at most 16 MiB, got ", bytes, " bytes");
  std::ifstream file(path, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(file), {}};
  require<ConfigError>(file.good() || file.eof(), path, ": cannot be read");
  return parse(std::move(content), path);
}

JsonNode JsonDocument::root() const {
  return {this, root_.get(), ""};
}

int64_t JsonDocument::line_of(size_t byte) const {
  return 1 +
         std::count(text_.begin(), text_.begin() + static_cast<int64_t>(std::min(byte, text_.size())), '\n');
}

}  // namespace tessera::training
