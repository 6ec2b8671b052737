#pragma once  // not in tessera.h

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// JSON as people write it in configuration files: comments and trailing commas are allowed, as in the
/// documents of DeepSpeed. Every value has its place in the text, for errors.
namespace Json {
class Value;
}

namespace tessera::training {

class JsonDocument;

/// A value of a document. Valid as long as the document.
class JsonNode {
 public:
  /// What a JSON value is, as in messages: "a table", "a list", "a text", "a number", "true or false",
  /// "null".
  std::string kind() const;
  /// Whether it is of a kind.
  /// @{
  bool is_table() const;
  bool is_list() const;
  bool is_text() const;
  bool is_number() const;
  bool is_bool() const;
  /// @}
  /// Whether it is the text `text`.
  bool is(std::string_view text) const;

  /// Its keys from the root: "zero_optimization.stage"; "" for the root.
  const std::string& path() const { return path_; }
  /// "ds_config.json:12: zero_optimization.stage": the file, the line and the path.
  std::string place() const;
  /// "ds_config.json".
  const std::string& document_name() const;
  /// "ds_config.json:12".
  std::string file_and_line() const;
  /// The value as JSON on one line, shortened where it is long: for messages.
  std::string given() const;

  /// The value. Throws ConfigError with place, expected and given for another kind; a whole number may be
  /// written in any way that is whole (2e8).
  /// @{
  bool as_bool() const;
  int64_t as_integer() const;
  double as_number() const;
  std::string as_text() const;
  /// The members of a table, in the order of the text, by key.
  std::vector<std::pair<std::string, JsonNode>> members() const;
  /// The elements of a list.
  std::vector<JsonNode> elements() const;
  /// @}

  /// The member of a table by its key; nothing where there is none, and for what is no table.
  std::optional<JsonNode> find(std::string_view key) const;

  /// jsoncpp's value, for code that includes jsoncpp.
  const Json::Value& value() const { return *value_; }
  /// Throws ConfigError: place, "expected ...", "got ...".
  [[noreturn]] void fail(const std::string& expected) const;

 private:
  friend class JsonDocument;
  JsonNode(const JsonDocument* document, const Json::Value* value, std::string path)
      : document_(document), value_(value), path_(std::move(path)) {}

  const JsonDocument* document_;
  const Json::Value* value_;
  std::string path_;
};

/// A text of JSON with its name.
class JsonDocument {
 public:
  /// Parses `text`; `name` stands for it in messages: a file's path, or "the configuration". Throws
  /// ConfigError naming the line for what is no JSON, a key twice, a number that is not finite, what follows
  /// the value, and more than 64 levels.
  static JsonDocument parse(std::string text, std::string name);
  /// Reads a file. Throws ConfigError naming the path where it cannot be read or is larger than 16 MiB.
  static JsonDocument read(const std::string& path);

  /// Nodes of the document that is moved point to nothing afterwards.
  /// @{
  JsonDocument(JsonDocument&&) noexcept;
  JsonDocument& operator=(JsonDocument&&) noexcept;
  /// @}
  ~JsonDocument();

  /// The whole value. Its nodes point to this document, which must not move meanwhile.
  JsonNode root() const;
  /// As given to `parse`, or the path.
  const std::string& name() const { return name_; }
  /// The line of a byte of the text, from 1.
  int64_t line_of(size_t byte) const;

 private:
  JsonDocument(std::string text, std::string name);

  std::string text_, name_;
  std::unique_ptr<Json::Value> root_;
};

}  // namespace tessera::training
