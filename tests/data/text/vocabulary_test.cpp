#include "data/text/vocabulary.h"

#include <doctest/doctest.h>

#include "data/text/utf8.h"
#include "tensor/error.h"
#include "tests/support/error_text.h"

using namespace tessera;
using data::CharacterVocabulary;

TEST_CASE("utf8: characters of one to four bytes, decoded and encoded") {
  const std::string bytes =
      "a\xC2\x80\xC3\xA9\xDF\xBF\xE0\xA0\x80\xE2\x82\xAC\xED\x9F\xBF\xEE\x80\x80\xF0\x9F\x98\x80\xF4\x8F\xBF"
      "\xBF";
  const std::u32string characters = U"a\u0080\u00E9\u07FF\u0800\u20AC\uD7FF\uE000\U0001F600\U0010FFFF";
  CHECK(data::decode_utf8(bytes, "here") == characters);
  std::string encoded;
  for (const char32_t c : characters) data::append_utf8(c, encoded);
  CHECK(encoded == bytes);
}

TEST_CASE("utf8: every invalid sequence is refused, with its position") {
  const auto error_message = [](const std::string& bytes) {
    return message_of<DataError>([&] { data::decode_utf8(bytes, "play.txt"); });
  };
  CHECK(error_message("ab\ncd\xFF") ==
        "play.txt: not UTF-8: byte 0xFF at offset 5 (line 2) does not begin a character");
  for (const char* wrong :
       {"\x80", "\xC0\xAF", "\xC1\x81", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\xE2\x28\xA1", "\xC3", "\xF0\x9F\x98 "})
    CHECK(contains(error_message(std::string("x") + wrong), "at offset 1 (line 1)"));
}

TEST_CASE("vocabulary: sorted characters, encoded and decoded") {
  const auto vocabulary = CharacterVocabulary::of(U"hello, w\u00F6rld\n");
  CHECK(vocabulary.characters() == "\n ,dehlorw\xC3\xB6");
  CHECK(vocabulary.size() == 11);
  CHECK(vocabulary.encode("low\n") == std::vector<uint16_t>{6, 7, 9, 0});
  CHECK(vocabulary.decode(10) == "\xC3\xB6");
  CHECK(vocabulary.contains(U'h'));
  CHECK_FALSE(vocabulary.contains(U'z'));
}

TEST_CASE("vocabulary: saved as its characters") {
  const auto vocabulary = CharacterVocabulary::of(U"to be or not to be\u2026");
  CHECK(CharacterVocabulary::from_characters(vocabulary.characters()) == vocabulary);
  CHECK(contains(message_of<DataError>([] { CharacterVocabulary::from_characters("acb"); }),
                 "'b' (U+0062) follows 'c' (U+0063) at index 1"));
  CHECK(contains(message_of<DataError>([] { CharacterVocabulary::from_characters("aa"); }), "each once"));
  CHECK(contains(message_of<DataError>([] { CharacterVocabulary::from_characters("a\xFF"); }), "not UTF-8"));
}

TEST_CASE("vocabulary: an unknown character is named, with its position") {
  const auto vocabulary = CharacterVocabulary::of(U"abc");
  CHECK(message_of<DataError>([&] {
          vocabulary.encode(
              "ab\xC3\xA9"
              "c",
              "prompt");
        }) == "prompt: character '\xC3\xA9' (U+00E9) at position 2 is not among the 3 of the vocabulary");
  CHECK(
      contains(message_of<DataError>([&] { vocabulary.encode("a\tb"); }), "character U+0009 at position 1"));
  CHECK(contains(message_of<DataError>([&] { vocabulary.decode(3); }), "id 3 is outside [0, 3)"));
  CHECK(contains(message_of<DataError>([&] { vocabulary.decode(-1); }), "id -1"));
}

TEST_CASE("vocabulary: more characters than 16-bit ids are refused") {
  std::u32string many;
  for (char32_t c = 0x10000; c < 0x10000 + 65537; ++c) many += c;
  CHECK(
      contains(message_of<DataError>([&] { CharacterVocabulary::of(many); }), "65537 different characters"));
  many.pop_back();
  const auto vocabulary = CharacterVocabulary::of(many);
  CHECK(vocabulary.encode(std::u32string_view(many).substr(65535), "text") == std::vector<uint16_t>{65535});
}
