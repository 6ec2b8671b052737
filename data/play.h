#pragma once

#include <cstdint>
#include <string>

#include "data/grammar.h"

namespace tessera::data {

/// The grammar of the builtin play: speeches and entrances in plain English words. The text is Tessera's
/// own, needs no download, and its entropy, `play_grammar().entropy()` nats per character, is exact.
const Grammar& play_grammar();

/// Which play, and how long.
struct PlayOptions {
  uint64_t seed = 1;
  /// At least so many characters: it ends with a whole scene.
  int64_t characters = 1'000'000;
};

/// The play's text: a pure function of the options.
std::string write_play(const PlayOptions& options = {});

}  // namespace tessera::data
