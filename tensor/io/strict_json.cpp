#include "tensor/io/strict_json.h"

#include <json/json.h>

#include <charconv>
#include <set>

#include "tensor/error.h"
#include "tensor/io/utf8.h"

namespace tessera::io {
namespace {

constexpr int max_depth = 128;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

template <class Number>
bool parse(std::string_view digits, Number& value) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc() && end == digits.data() + digits.size();
}

Json::Value number_value(std::string_view digits, const std::string& where) {
  Json::Int64 integer = 0;
  Json::UInt64 count = 0;
  double real = 0;
  if (parse(digits, integer)) return integer;
  if (parse(digits, count)) return count;
  require<CheckpointError>(parse(digits, real), where, ": ", std::string(digits), " is out of range");
  return real;
}

Json::Value read_value(JsonReader& reader, const std::string& where) {
  using Kind = JsonReader::Kind;
  switch (reader.kind()) {
    case Kind::object: {
      Json::Value value(Json::objectValue);
      reader.object([&](const std::string& key) { value[key] = read_value(reader, where); });
      return value;
    }
    case Kind::array: {
      Json::Value value(Json::arrayValue);
      reader.array([&] { value.append(read_value(reader, where)); });
      return value;
    }
    case Kind::string:
      return reader.string();
    case Kind::number:
      return number_value(reader.number(), where);
    case Kind::boolean:
      return reader.boolean();
    case Kind::null:
      reader.null();
      break;
  }
  return {};
}

}  // namespace

JsonReader::JsonReader(std::string_view json, std::string where) : json_(json), where_(std::move(where)) {
  if (const std::optional<size_t> bad = first_not_utf8(json)) {
    at_ = *bad;
    fail("expected UTF-8, got '" + escaped_bytes(json.substr(at_, 1)) + "'");
  }
}

void JsonReader::fail(const std::string& problem) const {
  throw CheckpointError(text(where_, ": not strict JSON: at byte ", at_, ": ", problem));
}

void JsonReader::skip_space() {
  while (at_ < json_.size() &&
         (json_[at_] == ' ' || json_[at_] == '\t' || json_[at_] == '\n' || json_[at_] == '\r'))
    ++at_;
}

/// The next character that is not white space.
char JsonReader::peek() {
  skip_space();
  if (at_ == json_.size()) fail("the text ends here");
  return json_[at_];
}

bool JsonReader::take(char c) {
  if (at_ == json_.size() || json_[at_] != c) return false;
  ++at_;
  return true;
}

void JsonReader::expect(char c, const char* what) {
  const char next = peek();
  if (!take(c)) fail(text("expected ", what, ", got '", escaped_bytes({&next, 1}), "'"));
}

void JsonReader::enter() {
  if (++depth_ > max_depth) fail(text("nested more than ", max_depth, " deep"));
}

JsonReader::Kind JsonReader::kind() {
  const char next = peek();
  switch (next) {
    case '{':
      return Kind::object;
    case '[':
      return Kind::array;
    case '"':
      return Kind::string;
    case 't':
    case 'f':
      return Kind::boolean;
    case 'n':
      return Kind::null;
    default:
      if (next != '-' && !is_digit(next)) fail("expected a value, got '" + escaped_bytes({&next, 1}) + "'");
      return Kind::number;
  }
}

void JsonReader::object(FunctionRef<void(const std::string& key)> member) {
  expect('{', "'{'");
  enter();
  std::set<std::string> keys;
  for (bool more = peek() != '}'; more; more = peek() != '}') {
    if (!keys.empty()) expect(',', "',' or '}'");
    skip_space();
    const auto [key, is_new] = keys.insert(string());
    if (!is_new) fail("Duplicate key: '" + *key + "'");
    expect(':', "':'");
    member(*key);
  }
  ++at_;
  --depth_;
}

void JsonReader::array(FunctionRef<void()> element) {
  expect('[', "'['");
  enter();
  bool first = true;
  for (bool more = peek() != ']'; more; more = peek() != ']') {
    if (!std::exchange(first, false)) expect(',', "',' or ']'");
    element();
  }
  ++at_;
  --depth_;
}

std::string JsonReader::string() {
  expect('"', "a string");
  std::string value;
  for (;;) {
    const size_t begin = at_;
    while (at_ < json_.size() && json_[at_] != '"' && json_[at_] != '\\' &&
           static_cast<unsigned char>(json_[at_]) >= 0x20)
      ++at_;
    value.append(json_, begin, at_ - begin);
    if (at_ == json_.size()) fail("the text ends inside a string");
    if (take('"')) return value;
    if (!take('\\')) fail("a control character inside a string");
    append_utf8(escaped_character(), value);
  }
}

/// The character that an escape stands for, after its backslash.
char32_t JsonReader::escaped_character() {
  constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
  const char letter = at_ < json_.size() ? json_[at_] : '\0';
  if (const size_t i = letters.find(letter); i != std::string_view::npos) {
    ++at_;
    return static_cast<unsigned char>(meanings[i]);
  }
  if (!take('u')) fail("an unknown escape inside a string");
  const unsigned unit = four_digits();
  if (unit < 0xd800 || unit > 0xdfff) return unit;
  if (unit > 0xdbff || !take('\\') || !take('u')) fail("a lone surrogate inside a string");
  const unsigned low = four_digits();
  if (low < 0xdc00 || low > 0xdfff) fail("a lone surrogate inside a string");
  return 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
}

unsigned JsonReader::four_digits() {
  unsigned unit = 0;
  const std::string_view hex = json_.substr(at_, 4);
  const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), unit, 16);
  if (hex.size() < 4 || error != std::errc() || end != hex.data() + 4)
    fail("expected four hexadecimal digits");
  at_ += 4;
  return unit;
}

void JsonReader::digits() {
  if (at_ == json_.size() || !is_digit(json_[at_])) fail("expected a digit");
  while (at_ < json_.size() && is_digit(json_[at_])) ++at_;
}

std::string_view JsonReader::number() {
  skip_space();
  const size_t begin = at_;
  take('-');
  if (take('0')) {
    if (at_ < json_.size() && is_digit(json_[at_])) fail("a number with a leading zero");
  } else {
    digits();
  }
  if (take('.')) digits();
  if (take('e') || take('E')) {
    if (!take('+')) take('-');
    digits();
  }
  return json_.substr(begin, at_ - begin);
}

void JsonReader::literal(std::string_view expected) {
  if (json_.substr(at_, expected.size()) != expected) fail("expected " + std::string(expected));
  at_ += expected.size();
}

bool JsonReader::boolean() {
  const bool value = peek() == 't';
  literal(value ? "true" : "false");
  return value;
}

void JsonReader::null() {
  skip_space();
  literal("null");
}

void JsonReader::finish() {
  skip_space();
  if (at_ != json_.size())
    fail("expected the end of the text, got '" + escaped_bytes(json_.substr(at_, 1)) + "'");
}

void parse_strict_json(const std::string& json, const std::string& where, Json::Value& root) {
  JsonReader reader(json, where);
  require<CheckpointError>(reader.kind() == JsonReader::Kind::object, where, ": expected a JSON object");
  root = read_value(reader, where);
  reader.finish();
}

void append_json_string(std::string_view text, std::string& json) {
  constexpr const char* digits = "0123456789abcdef";
  json += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      json += {'\\', c};
    else if (byte < 0x20)
      json += {'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15]};
    else
      json += c;
  }
  json += '"';
}

}  // namespace tessera::io
