#pragma once  // internal

#include <cstdint>
#include <string>

#include "data/text/grammar.h"

namespace tessera::data {

/// The grammar of the builtin play: speeches and entrances in plain English. The text is part of
/// Tessera, needs no download, and its entropy, `play_grammar().entropy()` nats per character, is exact.
const Grammar& play_grammar();

/// The play's seed and length.
struct PlayOptions {
  /// Of the grammar's choices.
  uint64_t seed = 1;
  /// The minimum length; the play ends with a complete scene.
  int64_t characters = 1'000'000;
};

/// The play's text: a pure function of the options.
std::string write_play(const PlayOptions& options = {});

}  // namespace tessera::data
