#include "data/text/grammar.h"

#include <algorithm>
#include <cmath>

#include "data/random_draws.h"
#include "tensor/error.h"

namespace tessera::data {

Grammar::Grammar(const std::vector<Rule>& rules) {
  if (rules.empty()) throw DataError("grammar: no rules; the first rule is the start");
  if (rules.size() > 256 - first_symbol)
    throw DataError(text("grammar: ", rules.size(), " rules, at most 128"));
  for (const Rule& rule : rules) {
    if (find(rule.symbol) >= 0) throw DataError(text("grammar: symbol '", rule.symbol, "' has two rules"));
    symbols_.emplace_back().name = rule.symbol;
  }
  for (size_t s = 0; s < rules.size(); ++s) {
    Symbol& owner = symbols_[s];
    for (const auto& [weight, body] : rules[s].alternatives) {
      if (weight < 1)
        throw DataError(text("grammar: '", owner.name, "' has an alternative of weight ", weight));
      owner.weight += static_cast<uint32_t>(weight);
      owner.choices.push_back({0, static_cast<uint32_t>(weight), compile(owner, body), ""});
    }
    for (Choice& choice : owner.choices) choice.probability = double(choice.weight) / owner.weight;
  }
  for (Symbol& owner : symbols_) measure(owner);
}

int Grammar::find(std::string_view name) const {
  for (size_t s = 0; s < symbols_.size(); ++s)
    if (symbols_[s].name == name) return static_cast<int>(s);
  return -1;
}

std::string Grammar::compile(const Symbol& owner, std::string_view body) const {
  std::string result;
  for (size_t i = 0; i < body.size(); ++i) {
    if (is_symbol(body[i])) throw DataError(text("grammar: '", owner.name, "' has text that is not ASCII"));
    if (body[i] != '{') {
      result += body[i];
      continue;
    }
    const size_t close = body.find('}', i);
    const std::string_view name = body.substr(i + 1, close == body.npos ? body.npos : close - i - 1);
    const int index = find(name);
    if (close == body.npos || index < 0)
      throw DataError(text("grammar: '", owner.name, "' names the unknown symbol '", name, "'"));
    result += static_cast<char>(first_symbol + index);
    i = close;
  }
  if (result.empty()) throw DataError(text("grammar: '", owner.name, "' has an empty alternative"));
  return result;
}

/// Computes expected length, entropy and first characters, children before the symbols that use them.
void Grammar::measure(Symbol& owner) {
  if (owner.visit == Symbol::done) return;
  if (owner.visit == Symbol::open)
    throw DataError(text("grammar: symbol '", owner.name, "' contains itself"));
  if (owner.choices.empty()) throw DataError(text("grammar: symbol '", owner.name, "' has no alternatives"));
  owner.visit = Symbol::open;
  for (Choice& choice : owner.choices) {
    double characters = 0, nats = -std::log(choice.probability);
    for (char c : choice.text) {
      if (is_symbol(c)) {
        Symbol& child = symbols_[static_cast<unsigned char>(c) - first_symbol];
        measure(child);
        characters += child.characters;
        nats += child.nats;
      } else {
        characters += 1;
      }
    }
    const char head = choice.text.front();
    choice.first_characters = is_symbol(head) ? symbol(head).first_characters : std::string(1, head);
    for (char c : choice.first_characters)
      if (owner.first_characters.find(c) != std::string::npos)
        throw DataError(text("grammar: two alternatives of '", owner.name, "' can begin with '", c, "'"));
    owner.first_characters += choice.first_characters;
    owner.characters += choice.probability * characters;
    owner.nats += choice.probability * nats;
  }
  owner.visit = Symbol::done;
}

std::string Grammar::generate(uint64_t seed, int64_t characters) const {
  std::string result, pending;
  result.reserve(static_cast<size_t>(std::max<int64_t>(characters, 0)) + 1024);
  uint64_t draws = 0;
  while (static_cast<int64_t>(result.size()) < characters) {
    // `pending` is stored in reverse: its last character is the next one to write.
    pending.assign(1, static_cast<char>(first_symbol));
    while (!pending.empty()) {
      const char c = pending.back();
      pending.pop_back();
      if (!is_symbol(c)) {
        result += c;
        continue;
      }
      const Symbol& owner = symbol(c);
      uint64_t ticket = uniform_below(owner.weight, draw(seed, Purpose::grammar, draws++, 0));
      const Choice* choice = owner.choices.data();
      while (ticket >= choice->weight) ticket -= (choice++)->weight;
      pending.append(choice->text.rbegin(), choice->text.rend());
    }
  }
  return result;
}

std::string Grammar::start() const {
  return std::string(1, static_cast<char>(first_symbol));
}

double Grammar::read(char next, std::string& pending) const {
  double probability = 1;
  if (pending.empty()) pending = start();
  while (is_symbol(pending.front())) {
    const auto& choices = symbol(pending.front()).choices;
    const auto taken = std::find_if(choices.begin(), choices.end(), [next](const Choice& choice) {
      return choice.first_characters.find(next) != std::string::npos;
    });
    if (taken == choices.end()) return 0;
    probability *= taken->probability;
    pending.replace(0, 1, taken->text);
  }
  if (pending.front() != next) return 0;
  pending.erase(0, 1);
  if (pending.empty()) pending = start();
  return probability;
}

std::string Grammar::continuations(const std::string& pending) const {
  const char head = pending.empty() ? static_cast<char>(first_symbol) : pending.front();
  std::string result = is_symbol(head) ? symbol(head).first_characters : std::string(1, head);
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace tessera::data
