#pragma once  // internal

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

/// One way to write a symbol, taken with probability weight / (sum of the weights of the symbol).
/// In `text`, `{name}` is the symbol `name`; all other characters are literal (ASCII).
struct Alternative {
  int weight = 1;    ///< at least 1
  std::string text;  ///< not empty
};

/// All the ways to write one symbol.
struct Rule {
  std::string symbol;                     ///< its name, without braces
  std::vector<Alternative> alternatives;  ///< at least one
};

/// A probabilistic grammar that generates text of exactly known entropy.
///
/// The text is an infinite sequence of units, each generated from the first rule's symbol, independently of
/// the others. Two properties, checked by the constructor, make the entropy of the text a finite sum:
///
///  - every choice is identified by its first character: no two alternatives of a symbol can begin with the
///    same one, and none is empty. So the text determines the choices: no two derivations give the same text,
///    and the text has the entropy of the choices;
///  - no symbol contains itself, so that a symbol's expected length and entropy are finite sums.
///
/// Hence the entropy rate is E[nats per unit] / E[characters per unit] (a renewal process).
class Grammar {
 public:
  /// Compiles the rules; the first is the start. Throws DataError for a grammar without the properties
  /// above, for an unknown or repeated symbol, a weight below one, text that is not ASCII, no rule, or more
  /// than 128.
  explicit Grammar(const std::vector<Rule>& rules);

  /// Expected number of characters of a unit.
  double characters_per_unit() const { return symbols_.front().characters; }
  /// Entropy of a unit, in nats.
  double nats_per_unit() const { return symbols_.front().nats; }
  /// Entropy of the text, in nats per character: the lower bound of the loss of any model.
  double entropy() const { return nats_per_unit() / characters_per_unit(); }

  /// Complete units, one after the other, until at least `characters` are written. A pure function of
  /// (grammar, seed, characters).
  std::string generate(uint64_t seed, int64_t characters) const;

  /// The pending text at the start of a unit; see read().
  std::string start() const;
  /// The probability of the character `next` where `pending` remains of the unit; removes it from `pending`.
  /// Returns 0, and leaves `pending` in an unspecified state, where `next` cannot follow. `pending` is the
  /// complete state of the text: it holds plain characters, and a byte of 128 or more for each symbol.
  double read(char next, std::string& pending) const;
  /// The characters that can come next where `pending` remains, in ascending order.
  std::string continuations(const std::string& pending) const;

 private:
  struct Choice {
    double probability;
    uint32_t weight;
    std::string text;              // characters, and first_symbol + index for a symbol
    std::string first_characters;  // with which this choice can begin
  };
  struct Symbol {
    std::string name;
    std::vector<Choice> choices;
    uint32_t weight = 0;  // the sum over the choices
    double characters = 0, nats = 0;
    std::string first_characters;
    enum { unseen, open, done } visit = unseen;
  };

  static constexpr int first_symbol = 128;
  static bool is_symbol(char c) { return static_cast<unsigned char>(c) >= first_symbol; }
  const Symbol& symbol(char c) const { return symbols_[static_cast<unsigned char>(c) - first_symbol]; }

  int find(std::string_view name) const;
  std::string compile(const Symbol& owner, std::string_view text) const;
  void measure(Symbol& symbol);

  std::vector<Symbol> symbols_;
};

}  // namespace tessera::data
