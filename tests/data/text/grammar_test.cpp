#include "data/text/grammar.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "data/text/play_grammar.h"
#include "tensor/error.h"
#include "tests/support/error_text.h"

using namespace tessera;
using data::Grammar;

namespace {

/// The grammar as a Markov source over characters: the successors of each state, with probabilities.
struct Automaton {
  struct Edge {
    char character;
    double probability;
    int to;
  };
  std::vector<std::vector<Edge>> edges;  // state 0: between two units

  explicit Automaton(const Grammar& grammar) {
    std::map<std::string, int> indices;
    std::vector<std::string> states;
    const auto index_of = [&](const std::string& pending) {
      const auto [entry, is_new] = indices.try_emplace(pending, static_cast<int>(states.size()));
      if (is_new) states.push_back(pending);
      return entry->second;
    };
    index_of(grammar.start());
    for (size_t s = 0; s < states.size(); ++s) {
      edges.emplace_back();
      for (const char c : grammar.continuations(states[s])) {
        std::string pending = states[s];
        const double probability = grammar.read(c, pending);
        edges[s].push_back({c, probability, index_of(pending)});
      }
    }
  }

  /// The expected number of visits of each state per unit, by propagating probability to the unit's end.
  std::vector<double> visits() const {
    std::vector<double> sum(edges.size()), now(edges.size()), next(edges.size());
    now[0] = 1;
    for (bool running = true; running;) {
      running = false;
      next.assign(edges.size(), 0);
      for (size_t s = 0; s < edges.size(); ++s) {
        sum[s] += now[s];
        for (const Edge& edge : edges[s])
          if (edge.to != 0 && now[s] > 0)
            next[static_cast<size_t>(edge.to)] += now[s] * edge.probability, running = true;
      }
      now.swap(next);
    }
    return sum;
  }
};

}  // namespace

TEST_CASE("grammar: length and entropy of a small grammar, computed by hand") {
  // Half the units are "a" (1 character), half "b" and one of "xy" or "zzz" at 3 : 1.
  const Grammar grammar({{"unit", {{1, "a"}, {1, "b{tail}"}}}, {"tail", {{3, "xy"}, {1, "zzz"}}}});
  CHECK(grammar.characters_per_unit() == doctest::Approx(0.5 * 1 + 0.5 * (1 + 0.75 * 2 + 0.25 * 3)));
  const double tail = -(0.75 * std::log(0.75) + 0.25 * std::log(0.25));
  CHECK(grammar.nats_per_unit() == doctest::Approx(std::log(2.0) + 0.5 * tail));
  CHECK(grammar.entropy() == doctest::Approx(grammar.nats_per_unit() / grammar.characters_per_unit()));
}

TEST_CASE("grammar: ambiguous rules, and rules without a finite length, are refused") {
  const auto error_message = [](const std::vector<data::Rule>& rules) {
    return message_of<DataError>([&] { Grammar grammar(rules); });
  };
  CHECK(
      contains(error_message({{"a", {{1, "xy"}, {1, "xz"}}}}), "two alternatives of 'a' can begin with 'x'"));
  CHECK(contains(error_message({{"a", {{1, "{b}"}, {1, "x"}}}, {"b", {{1, "y"}, {1, "x"}}}}),
                 "'a' can begin with 'x'"));
  CHECK(contains(error_message({{"a", {{1, "x{b}"}}}, {"b", {{1, "y{a}"}}}}), "contains itself"));
  CHECK(contains(error_message({{"a", {{1, "x{c}"}}}}), "unknown symbol 'c'"));
  CHECK(contains(error_message({{"a", {{1, "x{c"}}}}), "unknown symbol"));
  CHECK(contains(error_message({{"a", {{0, "x"}}}}), "weight 0"));
  CHECK(contains(error_message({{"a", {{1, ""}}}}), "empty alternative"));
  CHECK(contains(error_message({{"a", {{1, "x"}}}, {"a", {{1, "y"}}}}), "two rules"));
  CHECK(contains(error_message({{"a", {{1, "\xC3\xA9"}}}}), "not ASCII"));
  CHECK(contains(error_message({}), "no rules"));
}

TEST_CASE("play: a pure function of the seed, of complete scenes, at least as long as requested") {
  const std::string play = data::write_play();
  CHECK(play == data::write_play());
  CHECK(play != data::write_play({.seed = 2}));
  CHECK(play.size() >= 1'000'000);
  CHECK(play.size() < 1'001'000);
  CHECK(play.ends_with("\n\n"));
  CHECK(data::write_play({.characters = 5000}) ==
        play.substr(0, data::write_play({.characters = 5000}).size()));
}

TEST_CASE("play: the entropy by the formula is the mean -log probability of a character in a text") {
  // The probability of each character is given all before it. The mean differs from the entropy h by sampling
  // error, estimated over scenes: for a scene of n characters and cost s, the error is that of s - h n.
  const Grammar& grammar = data::play_grammar();
  const std::string play = data::write_play({.seed = 3, .characters = 2'000'000});
  std::string pending = grammar.start();
  double cost = 0, scene_cost = 0, squares = 0;
  int64_t scene_length = 0;
  for (const char c : play) {
    const double probability = grammar.read(c, pending);
    if (probability == 0) FAIL("the grammar gives its own text probability 0");
    scene_cost -= std::log(probability);
    ++scene_length;
    if (pending != grammar.start()) continue;
    const double error = scene_cost - grammar.entropy() * static_cast<double>(scene_length);
    squares += error * error;
    cost += scene_cost;
    scene_cost = 0, scene_length = 0;
  }
  const auto characters = static_cast<double>(play.size());
  const double deviation = std::sqrt(squares) / characters;
  CAPTURE(cost / characters);
  CAPTURE(deviation);
  CHECK(std::abs(cost / characters - grammar.entropy()) < 4 * deviation);
  CHECK(deviation < 0.0005);
}

TEST_CASE("play: the entropy by the formula is that of the Markov source over characters") {
  const Automaton automaton(data::play_grammar());
  const std::vector<double> visits = automaton.visits();
  double characters = 0, nats = 0;
  for (size_t s = 0; s < visits.size(); ++s) {
    characters += visits[s];
    double sum = 0;
    for (const auto& edge : automaton.edges[s]) {
      sum += edge.probability;
      nats -= visits[s] * edge.probability * std::log(edge.probability);
    }
    CHECK(sum == doctest::Approx(1).epsilon(1e-12));
  }
  CHECK(characters == doctest::Approx(data::play_grammar().characters_per_unit()).epsilon(1e-10));
  CHECK(nats == doctest::Approx(data::play_grammar().nats_per_unit()).epsilon(1e-10));
}

TEST_CASE("play: the last 37 characters determine the state") {
  // Starting from all states, every sequence of characters reduces the set of possible states. After any 37
  // characters a single state is left, so a window of 64 is long enough.
  const Automaton automaton(data::play_grammar());
  std::set<int> all_states;
  for (size_t s = 0; s < automaton.edges.size(); ++s) all_states.insert(static_cast<int>(s));
  std::set<std::set<int>> open = {all_states};
  int characters = 0;
  for (; !open.empty() && characters < 64; ++characters) {
    std::set<std::set<int>> next;
    for (const std::set<int>& states : open) {
      std::map<char, std::set<int>> after;
      for (const int s : states)
        for (const auto& edge : automaton.edges[static_cast<size_t>(s)])
          after[edge.character].insert(edge.to);
      for (auto& [character, reached] : after)
        if (reached.size() > 1) next.insert(std::move(reached));
    }
    open = std::move(next);
  }
  CHECK(characters == 37);
}

TEST_CASE("play: optimal prediction in windows of 64 characters costs 0.03 nats per character more") {
  // The state at the start of a window is unknown: its distribution is the stationary one, updated with every
  // character (the filter of a hidden Markov model). A model with a block of 64, measured over windows,
  // cannot do better.
  const Automaton automaton(data::play_grammar());
  const std::string play = data::write_play({.seed = 5});
  std::vector<double> stationary = automaton.visits();
  for (double& probability : stationary) probability /= data::play_grammar().characters_per_unit();
  double cost = 0;
  int64_t predicted = 0;
  for (size_t begin = 0; begin + 65 < play.size(); begin += 997) {
    std::vector<double> belief = stationary, next(belief.size());
    for (size_t t = 0; t <= 64; ++t) {
      double probability = 0;
      next.assign(belief.size(), 0);
      for (size_t s = 0; s < belief.size(); ++s)
        for (const auto& edge : automaton.edges[s])
          if (edge.character == play[begin + t] && belief[s] > 0) {
            next[static_cast<size_t>(edge.to)] += belief[s] * edge.probability;
            probability += belief[s] * edge.probability;
          }
      for (double& p : next) p /= probability;
      belief.swap(next);
      if (t == 0) continue;  // the first character is given
      cost -= std::log(probability);
      ++predicted;
    }
  }
  const double excess = cost / static_cast<double>(predicted) - data::play_grammar().entropy();
  CHECK(excess > 0.02);
  CHECK(excess < 0.035);
}
