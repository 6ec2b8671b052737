// PTX text to tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::cuda_sim::ptx {

/// A token. Its text is a view into the module's text.
struct Token {
  enum class Kind : uint8_t {
    word,         ///< an identifier, an opcode with its modifiers, or a directive (.reg)
    number,       ///< an integer or a 0f.../0d... constant
    string,       ///< without its quotes
    punctuation,  ///< one character
    end,
  };
  Kind kind = Kind::end;
  std::string_view text;
  int line = 1;

  bool is(std::string_view what) const {
    return text == what && (kind == Kind::word || kind == Kind::punctuation);
  }
};

/// Walks over a module's text, one token ahead (PTX ISA, "Syntax").
class Lexer {
 public:
  explicit Lexer(std::string_view text);

  const Token& peek() const { return token_; }
  Token next();
  /// Takes the next token if it is `what`.
  bool accept(std::string_view what);
  /// Takes the next token, which must be `what`.
  void expect(std::string_view what);
  std::string word(std::string_view what);
  int64_t integer();

  /// Text from `begin` (a token's text) to the end of the token taken last, each run of space as one blank.
  std::string text_from(std::string_view begin) const;
  /// Throws std::runtime_error: what was expected, what came, the line and its text.
  [[noreturn]] void fail(const std::string& what) const;

 private:
  void advance();
  void skip_space();

  std::string_view text_;
  size_t at_ = 0, taken_end_ = 0;
  int line_ = 1;
  Token token_;
};

}  // namespace tessera::cuda_sim::ptx
