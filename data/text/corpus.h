#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "data/text/play_grammar.h"
#include "data/text/tiny_shakespeare.h"
#include "data/text/tokens.h"
#include "data/text/vocabulary.h"

namespace tessera::data {

/// Tokens for training and validation, and their properties.
struct Corpus {
  /// "tiny-shakespeare", "builtin", "text" or "tokens".
  std::string dataset;
  /// The path of its file, or a description of its source.
  std::string source;
  /// Ids for training, and those for measuring the loss.
  /// @{
  Tokens train, validation;
  /// @}
  /// Ids are in [0, vocabulary_size).
  int64_t vocabulary_size = 0;
  /// The characters of the ids; nothing for a token file.
  std::optional<CharacterVocabulary> vocabulary;
  /// The lower bound of any model's loss in nats per character, where it is known.
  std::optional<double> entropy;
};

/// Which corpus to open.
struct CorpusOptions {
  /// `tiny-shakespeare`: the file `data`, or one that find_tiny_shakespeare finds;
  /// `builtin`: the embedded play;
  /// `text`: the UTF-8 file `data`;
  /// `tokens`: the folder `data` with nanoGPT's train.bin and val.bin.
  std::string dataset = "tiny-shakespeare";
  /// A file or folder (`--data`).
  std::string data = {};
  /// A saved model's vocabulary, which the text must then fit; otherwise the text's own.
  std::optional<CharacterVocabulary> vocabulary = {};
  /// Of token files; 0: one more than the largest id they hold.
  int64_t vocabulary_size = 0;
  /// Of `builtin`.
  PlayOptions play = {};
  /// Of `tiny-shakespeare`; `data`, where given, takes the place of its `file`.
  TinyShakespeareOptions tiny_shakespeare = {};
};

/// Opens a corpus; of a text, the first 90 % (rounded down) are for training and the rest for validation, as
/// in nanoGPT. Throws ConfigError for an unknown dataset or a missing or superfluous `data`, DataError for
/// invalid data.
Corpus open_corpus(const CorpusOptions& options);

/// A corpus of characters from UTF-8 text. `source` names it in error messages. Throws DataError when it is
/// empty, not UTF-8, or does not fit the vocabulary given.
Corpus text_corpus(std::string_view utf8, std::string source,
                   const std::optional<CharacterVocabulary>& vocabulary = std::nullopt);

}  // namespace tessera::data
