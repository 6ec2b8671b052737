#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tessera::data {

/// The characters of a text, sorted by code point; a character's id is its index. At most 65,536, so that an
/// id fits 16 bits.
class CharacterVocabulary {
 public:
  /// An empty vocabulary.
  CharacterVocabulary() = default;
  /// Every character that occurs in `content`. Throws DataError when there are more than 65,536.
  static CharacterVocabulary of(std::u32string_view content);
  /// From the characters in UTF-8, in ascending order, each once: what `characters()` returns and a
  /// checkpoint stores. Throws DataError for anything else.
  static CharacterVocabulary from_characters(std::string_view utf8);

  /// Number of characters.
  int64_t size() const { return static_cast<int64_t>(characters_.size()); }
  /// All characters in the order of their ids, in UTF-8.
  std::string characters() const;
  /// Whether `encode` accepts it.
  bool contains(char32_t character) const { return ids_.contains(character); }
  /// Whether both have the same characters, and so the same ids.
  friend bool operator==(const CharacterVocabulary& a, const CharacterVocabulary& b) {
    return a.characters_ == b.characters_;
  }

  /// Ids of a text. Throws DataError naming `source`, the first character that is not in the vocabulary, and
  /// its position.
  std::vector<uint16_t> encode(std::u32string_view content, std::string_view source) const;
  /// Ids of UTF-8 text, such as a prompt. Throws DataError also where it is not UTF-8.
  std::vector<uint16_t> encode(std::string_view utf8, std::string_view source = "text") const;
  /// The character of one id in UTF-8. Throws DataError for an id outside [0, size()).
  std::string decode(int64_t id) const;

 private:
  explicit CharacterVocabulary(std::u32string characters);

  std::u32string characters_;
  std::unordered_map<char32_t, uint16_t> ids_;
};

}  // namespace tessera::data
