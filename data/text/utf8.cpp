#include "data/text/utf8.h"

#include <algorithm>
#include <cstdio>

#include "tensor/error.h"

namespace tessera::data {
namespace {

struct Decoded {
  char32_t character;
  int length;  // in bytes; 0 for an invalid sequence
};

/// The character at the start of `bytes` (not empty).
Decoded decode_one(std::string_view bytes) {
  const auto byte = [bytes](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const int length = lead >= 0xC2 && lead < 0xE0   ? 2
                     : lead >= 0xE0 && lead < 0xF0 ? 3
                     : lead >= 0xF0 && lead < 0xF5 ? 4
                                                   : 0;
  if (length == 0 || bytes.size() < static_cast<size_t>(length)) return {0, 0};
  // The second byte's range depends on the first: this excludes overlong forms, surrogates and code points
  // above U+10FFFF.
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return {0, 0};
  char32_t character = lead & (0x7Fu >> length);
  for (int i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0u) != 0x80u) return {0, 0};
    character = character << 6 | (byte(i) & 0x3Fu);
  }
  return {character, length};
}

}  // namespace

std::u32string decode_utf8(std::string_view bytes, std::string_view source) {
  std::u32string characters;
  characters.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size();) {
    const auto [character, length] = decode_one(bytes.substr(i));
    if (length == 0) {
      char value[8];
      std::snprintf(value, sizeof value, "0x%02X", static_cast<unsigned char>(bytes[i]));
      const auto line = 1 + std::count(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(i), '\n');
      throw DataError(text(source, ": not UTF-8: byte ", value, " at offset ", i, " (line ", line,
                           ") does not begin a character"));
    }
    characters += character;
    i += static_cast<size_t>(length);
  }
  return characters;
}

void append_utf8(char32_t character, std::string& bytes) {
  const auto tail = [&](int shift) { bytes += static_cast<char>(0x80 | (character >> shift & 0x3F)); };
  if (character < 0x80) {
    bytes += static_cast<char>(character);
  } else if (character < 0x800) {
    bytes += static_cast<char>(0xC0 | character >> 6);
    tail(0);
  } else if (character < 0x10000) {
    bytes += static_cast<char>(0xE0 | character >> 12);
    tail(6), tail(0);
  } else {
    bytes += static_cast<char>(0xF0 | character >> 18);
    tail(12), tail(6), tail(0);
  }
}

std::string describe_character(char32_t character) {
  char code_point[16];
  std::snprintf(code_point, sizeof code_point, "U+%04X", static_cast<unsigned>(character));
  const bool control = character < 0x20 || (character >= 0x7F && character < 0xA0);
  if (control) return code_point;
  std::string result = "'";
  append_utf8(character, result);
  return result + "' (" + code_point + ")";
}

}  // namespace tessera::data
