#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "data/play.h"
#include "data/tiny_shakespeare.h"
#include "data/tokens.h"
#include "data/vocabulary.h"

namespace tessera::data {

/// Tokens to train and to validate on, and what is known of them.
struct Corpus {
  /// "tiny-shakespeare", "builtin", "text" or "tokens".
  std::string dataset;
  /// The file it came from.
  std::string where;
  Tokens train, validation;
  /// Ids are below it.
  int64_t vocabulary_size = 0;
  /// What the ids stand for; a token file does not say.
  std::optional<CharacterVocabulary> vocabulary;
  /// Nats per character under which no model's loss can stay, where that is known.
  std::optional<double> entropy;
};

/// Which corpus to open.
struct CorpusOptions {
  /// `tiny-shakespeare`: the file `data`, or wherever find_tiny_shakespeare looks;
  /// `builtin`: the embedded play;
  /// `text`: the UTF-8 file `data`;
  /// `tokens`: the folder `data` with nanoGPT's train.bin and val.bin.
  std::string dataset = "tiny-shakespeare";
  /// A file or folder (`--data`).
  std::filesystem::path data = {};
  /// A saved model's vocabulary, which the text must then fit; otherwise the text's own.
  std::optional<CharacterVocabulary> vocabulary = {};
  /// Of token files; 0: one more than the largest id they hold.
  int64_t vocabulary_size = 0;
  PlayOptions play = {};
  TinyShakespeareOptions tiny_shakespeare = {};
};

/// Opens a corpus; of a text, the first 90 % (rounded down) are for training and the rest for validation, as
/// in nanoGPT. Throws ConfigError for an unknown dataset or a missing or needless `data`, DataError for data
/// that is refused.
Corpus open_corpus(const CorpusOptions& options);

/// A corpus of characters from UTF-8 text. `where` names it in error messages. Throws DataError when it is
/// empty, not UTF-8, or does not fit the vocabulary given.
Corpus text_corpus(std::string_view utf8, std::string where,
                   const std::optional<CharacterVocabulary>& vocabulary = std::nullopt);

}  // namespace tessera::data
