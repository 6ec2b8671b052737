#include "data/text/vocabulary.h"

#include <algorithm>
#include <bitset>
#include <memory>

#include "data/text/utf8.h"
#include "tensor/error.h"

namespace tessera::data {
namespace {
constexpr size_t max_characters = 65536;
constexpr size_t code_points = 0x110000;
}  // namespace

CharacterVocabulary::CharacterVocabulary(std::u32string characters) : characters_(std::move(characters)) {
  ids_.reserve(characters_.size());
  for (size_t i = 0; i < characters_.size(); ++i) ids_.emplace(characters_[i], static_cast<uint16_t>(i));
}

CharacterVocabulary CharacterVocabulary::of(std::u32string_view content) {
  const auto present = std::make_unique<std::bitset<code_points>>();
  for (char32_t c : content) present->set(c);
  require<DataError>(present->count() <= max_characters, "vocabulary: the text has ", present->count(),
                     " different characters, at most 65536 are supported");
  std::u32string characters;
  for (size_t c = 0; c < code_points; ++c)
    if (present->test(c)) characters += static_cast<char32_t>(c);
  return CharacterVocabulary(std::move(characters));
}

CharacterVocabulary CharacterVocabulary::from_characters(std::string_view utf8) {
  std::u32string characters = decode_utf8(utf8, "vocabulary");
  require<DataError>(characters.size() <= max_characters, "vocabulary: ", characters.size(),
                     " characters, at most 65536 are supported");
  const auto wrong = std::adjacent_find(characters.begin(), characters.end(), std::greater_equal<>());
  if (wrong != characters.end())
    throw DataError(text("vocabulary: characters must ascend, each once; ", describe_character(wrong[1]),
                         " follows ", describe_character(wrong[0]), " at index ",
                         wrong - characters.begin()));
  return CharacterVocabulary(std::move(characters));
}

std::string CharacterVocabulary::characters() const {
  std::string result;
  for (char32_t c : characters_) append_utf8(c, result);
  return result;
}

std::vector<uint16_t> CharacterVocabulary::encode(std::u32string_view content,
                                                  std::string_view source) const {
  std::vector<uint16_t> ids(content.size());
  for (size_t i = 0; i < content.size(); ++i) {
    const auto found = ids_.find(content[i]);
    if (found == ids_.end())
      throw DataError(text(source, ": character ", describe_character(content[i]), " at position ", i,
                           " is not among the ", size(), " of the vocabulary"));
    ids[i] = found->second;
  }
  return ids;
}

std::vector<uint16_t> CharacterVocabulary::encode(std::string_view utf8, std::string_view source) const {
  return encode(decode_utf8(utf8, source), source);
}

std::string CharacterVocabulary::decode(int64_t id) const {
  require<DataError>(id >= 0 && id < size(), "vocabulary: id ", id, " is outside [0, ", size(), ")");
  std::string result;
  append_utf8(characters_[static_cast<size_t>(id)], result);
  return result;
}

}  // namespace tessera::data
