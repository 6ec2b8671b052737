#pragma once  // internal

#include <string>
#include <string_view>

#include "tensor/function_ref.h"

namespace Json {
class Value;
}

namespace tessera::io {

/// Reads JSON in the order of the text, without building a tree. Accepts RFC 8259 in UTF-8 and nothing else:
/// no comments, no trailing commas, no leading zeros, no raw control characters, no lone surrogates, no key
/// twice, and nothing but white space after the value. Every member throws CheckpointError naming `where` and
/// the byte of the text.
class JsonReader {
 public:
  /// What a JSON value is.
  enum class Kind { object, array, string, number, boolean, null };

  /// `json` must outlive the reader.
  JsonReader(std::string_view json, std::string where);

  /// The kind of the next value.
  Kind kind();
  /// Calls `member` with each key, in order; `member` must read the value.
  void object(FunctionRef<void(const std::string& key)> member);
  /// Calls `element` before each element; `element` must read it.
  void array(FunctionRef<void()> element);
  /// Reads a string; its value in UTF-8, with escapes replaced.
  std::string string();
  /// Reads a number; its text, unconverted.
  std::string_view number();
  /// Reads `true` or `false`.
  bool boolean();
  /// Reads `null`.
  void null();
  /// Throws unless only white space follows.
  void finish();

 private:
  void skip_space();
  char peek();
  bool take(char c);
  void expect(char c, const char* what);
  void literal(std::string_view expected);
  void digits();
  char32_t escaped_character();
  unsigned four_digits();
  void enter();
  [[noreturn]] void fail(const std::string& problem) const;

  std::string_view json_;
  std::string where_;
  size_t at_ = 0;
  int depth_ = 0;
};

/// Reads one JSON object, as JsonReader does, into a tree. Throws CheckpointError naming `where` and the
/// place in the text.
void parse_strict_json(const std::string& json, const std::string& where, Json::Value& root);

/// Appends a string as JSON writes it. `text` must be UTF-8.
void append_json_string(std::string_view text, std::string& json);

}  // namespace tessera::io
