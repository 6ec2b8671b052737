#include "data/text/play_grammar.h"

namespace tessera::data {

const Grammar& play_grammar() {
  static const Grammar grammar({
      {"scene", {{3, "{speech}"}, {1, "[Enter {entering}{line}\n{rest}"}}},
      {"speech", {{1, "{name}:\n{line}\n{rest}"}}},
      {"rest", {{2, "\n"}, {1, "{line}\n\n"}}},
      {"name", {{4, "ROSALIND"}, {3, "OSRIC"}, {3, "VIOLA"}, {2, "DUKE"}, {2, "FESTE"}}},
      {"entering",
       {{4, "ROSALIND]\n\nROSALIND:\n"},
        {3, "OSRIC]\n\nOSRIC:\n"},
        {3, "VIOLA]\n\nVIOLA:\n"},
        {2, "DUKE]\n\nDUKE:\n"},
        {2, "FESTE]\n\nFESTE:\n"}}},
      {"line",
       {{3, "The {noun} {verb} the {noun}{stop}"},
        {2, "My {noun} {verb} the {noun}{stop}"},
        {2, "O {noun}, {adjective} {noun}!"}}},
      {"stop", {{3, "."}, {1, " {when}."}}},
      {"when", {{1, "tonight"}, {1, "at dawn"}, {1, "no more"}}},
      {"noun",
       {{4, "king"},
        {3, "queen"},
        {2, "rose"},
        {2, "moon"},
        {2, "sword"},
        {1, "ghost"},
        {2, "fool"},
        {1, "heart"},
        {1, "crown"}}},
      {"verb", {{4, "loves"}, {2, "fears"}, {2, "mocks"}, {1, "seeks"}, {1, "hides"}}},
      {"adjective", {{1, "gentle"}, {1, "sweet"}, {1, "poor"}, {1, "noble"}}},
  });
  return grammar;
}

std::string write_play(const PlayOptions& options) {
  return play_grammar().generate(options.seed, options.characters);
}

}  // namespace tessera::data
