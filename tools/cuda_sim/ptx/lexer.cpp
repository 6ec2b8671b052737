#include "tools/cuda_sim/ptx/lexer.h"

#include <cctype>
#include <stdexcept>

namespace tessera::cuda_sim::ptx {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool begins_word(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%' || c == '.';
}

bool continues_word(char c) {
  return begins_word(c) || is_digit(c);
}

}  // namespace

Lexer::Lexer(std::string_view text) : text_(text) {
  advance();
}

Token Lexer::next() {
  const Token taken = token_;
  taken_end_ = static_cast<size_t>(taken.text.data() - text_.data()) + taken.text.size();
  advance();
  return taken;
}

bool Lexer::accept(std::string_view what) {
  if (!token_.is(what)) return false;
  next();
  return true;
}

void Lexer::expect(std::string_view what) {
  if (!accept(what)) fail("expected '" + std::string(what) + "'");
}

std::string Lexer::word(std::string_view what) {
  if (token_.kind != Token::Kind::word) fail("expected " + std::string(what));
  return std::string(next().text);
}

int64_t Lexer::integer() {
  const bool is_negative = accept("-");
  if (token_.kind != Token::Kind::number) fail("expected an integer");
  std::string digits(token_.text);
  if (digits.back() == 'U' || digits.back() == 'u') digits.pop_back();
  int base = 10;
  size_t prefix = 0;
  if (digits.size() > 1 && digits[0] == '0') {
    const char second = digits[1];
    base = second == 'x' || second == 'X' ? 16 : second == 'b' || second == 'B' ? 2 : 8;
    prefix = base == 8 ? 1 : 2;
  }
  uint64_t value = 0;
  for (size_t i = prefix; i < digits.size(); ++i) {
    const char c = static_cast<char>(std::tolower(static_cast<unsigned char>(digits[i])));
    const int digit = is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : base;
    if (digit >= base) fail("expected an integer");
    value = value * static_cast<uint64_t>(base) + static_cast<uint64_t>(digit);
  }
  next();
  return static_cast<int64_t>(is_negative ? 0 - value : value);
}

std::string Lexer::text_from(std::string_view begin) const {
  const auto first = static_cast<size_t>(begin.data() - text_.data());
  std::string out;
  for (const char c : text_.substr(first, taken_end_ - first)) {
    const bool is_space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!is_space)
      out += c;
    else if (out.back() != ' ')
      out += ' ';
  }
  return out;
}

void Lexer::fail(const std::string& what) const {
  const auto at =
      token_.kind == Token::Kind::end ? text_.size() : static_cast<size_t>(token_.text.data() - text_.data());
  size_t begin = at, end = at;
  while (begin > 0 && text_[begin - 1] != '\n') --begin;
  while (end < text_.size() && text_[end] != '\n' && text_[end] != '\r') ++end;
  std::string message = "PTX line " + std::to_string(token_.line) + ": " + what;
  if (token_.kind == Token::Kind::end)
    message += ", the text ends";
  else
    message += " at '" + std::string(token_.text.substr(0, 40)) + "'";
  throw std::runtime_error(message + ": " + std::string(text_.substr(begin, end - begin)));
}

void Lexer::skip_space() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '\n') {
      ++line_;
      ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\0') {
      ++at_;
    } else if (text_.compare(at_, 2, "//") == 0) {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (text_.compare(at_, 2, "/*") == 0) {
      const size_t end = text_.find("*/", at_ + 2);
      const size_t stop = end == std::string_view::npos ? text_.size() : end + 2;
      for (; at_ < stop; ++at_) line_ += text_[at_] == '\n' ? 1 : 0;
    } else {
      return;
    }
  }
}

void Lexer::advance() {
  skip_space();
  token_ = {Token::Kind::end, text_.substr(text_.size()), line_};
  if (at_ >= text_.size()) return;
  const size_t begin = at_;
  const char first = text_[at_++];
  if (is_digit(first)) {
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '.'))
      ++at_;
    token_ = {Token::Kind::number, text_.substr(begin, at_ - begin), line_};
  } else if (begins_word(first)) {
    // Two colons belong to a word (ld.shared::cta.b32), one ends a label. Directives need no space between
    // them: .reg.b32.
    while (at_ < text_.size() && !(first == '.' && text_[at_] == '.') &&
           (continues_word(text_[at_]) || text_.compare(at_, 2, "::") == 0 ||
            (text_[at_] == ':' && text_[at_ - 1] == ':')))
      ++at_;
    token_ = {Token::Kind::word, text_.substr(begin, at_ - begin), line_};
  } else if (first == '"') {
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    token_ = {Token::Kind::string, text_.substr(begin + 1, at_ - begin - 1), line_};
    ++at_;
  } else {
    token_ = {Token::Kind::punctuation, text_.substr(begin, 1), line_};
  }
}

}  // namespace tessera::cuda_sim::ptx
