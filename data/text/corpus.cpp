#include "data/text/corpus.h"

#include <algorithm>
#include <utility>

#include "data/text/file.h"
#include "data/text/utf8.h"
#include "tensor/error.h"

namespace tessera::data {
namespace {

void check_ids(const Tokens& tokens, int64_t vocabulary_size) {
  const auto* wrong = std::find_if(tokens.begin(), tokens.end(),
                                   [vocabulary_size](uint16_t id) { return id >= vocabulary_size; });
  require<DataError>(wrong == tokens.end(), "token file ", tokens.name(), ": id ",
                     wrong == tokens.end() ? 0 : int64_t{*wrong}, " at position ", wrong - tokens.begin(),
                     ", the vocabulary has ", vocabulary_size);
}

Corpus token_corpus(const CorpusOptions& options) {
  Corpus corpus;
  corpus.source = options.data;
  corpus.train = map_token_file(options.data + "/train.bin");
  corpus.validation = map_token_file(options.data + "/val.bin");
  corpus.vocabulary_size = options.vocabulary_size;
  if (corpus.vocabulary_size == 0)
    corpus.vocabulary_size =
        std::max(corpus.train.smallest_vocabulary(), corpus.validation.smallest_vocabulary());
  check_ids(corpus.train, corpus.vocabulary_size);
  check_ids(corpus.validation, corpus.vocabulary_size);
  return corpus;
}

Corpus play_corpus(const CorpusOptions& options) {
  Corpus corpus = text_corpus(write_play(options.play), "the builtin play", options.vocabulary);
  corpus.entropy = play_grammar().entropy();
  return corpus;
}

Corpus shakespeare_corpus(const CorpusOptions& options) {
  TinyShakespeareOptions search = options.tiny_shakespeare;
  if (!options.data.empty()) search.file = options.data;
  FoundText found = find_tiny_shakespeare(search);
  return text_corpus(found.content, std::move(found.source), options.vocabulary);
}

}  // namespace

Corpus text_corpus(std::string_view utf8, std::string source,
                   const std::optional<CharacterVocabulary>& vocabulary) {
  require<DataError>(!utf8.empty(), source, ": is empty");
  const std::u32string characters = decode_utf8(utf8, source);
  Corpus corpus;
  corpus.dataset = "text";
  corpus.vocabulary = vocabulary ? *vocabulary : CharacterVocabulary::of(characters);
  corpus.vocabulary_size = corpus.vocabulary->size();
  const Tokens all(corpus.vocabulary->encode(characters, source), source);
  const int64_t train = all.size() * 9 / 10;
  corpus.train = all.range(0, train, source + " (first 90 %)");
  corpus.validation = all.range(train, all.size() - train, source + " (last 10 %)");
  corpus.source = std::move(source);
  return corpus;
}

Corpus open_corpus(const CorpusOptions& options) {
  const std::string& name = options.dataset;
  const bool needs_data = name == "text" || name == "tokens";
  require<ConfigError>(needs_data || name == "tiny-shakespeare" || name == "builtin", "dataset '", name,
                       "': expected tiny-shakespeare, builtin, text or tokens");
  require<ConfigError>(!needs_data || !options.data.empty(), "dataset '", name, "' needs `--data ",
                       name == "text" ? "FILE`" : "FOLDER` (with train.bin and val.bin)",
                       "; in C++, CorpusOptions::data");
  require<ConfigError>(name != "builtin" || options.data.empty(), "dataset 'builtin' takes no `--data`, got ",
                       options.data);
  Corpus corpus = name == "tokens"    ? token_corpus(options)
                  : name == "builtin" ? play_corpus(options)
                  : name == "text"    ? text_corpus(read_file(options.data, "text file"),
                                                    "text file " + options.data, options.vocabulary)
                                      : shakespeare_corpus(options);
  corpus.dataset = name;
  return corpus;
}

}  // namespace tessera::data
