#include "tensor/io/utf8.h"

namespace tessera::io {
namespace {

/// The number of bytes of the character that begins at `i`; 0 where none does. By the Unicode Standard's
/// table 3-7: only the second byte's range depends on the first.
size_t character_length(std::string_view bytes, size_t i) {
  const auto byte = [&](size_t k) { return k < bytes.size() ? static_cast<unsigned char>(bytes[k]) : 0u; };
  const unsigned first = byte(i);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return 0;
  unsigned low = 0x80, high = 0xbf;
  if (first == 0xe0) low = 0xa0;
  if (first == 0xed) high = 0x9f;
  if (first == 0xf0) low = 0x90;
  if (first == 0xf4) high = 0x8f;
  for (size_t k = 1; k < length; ++k, low = 0x80, high = 0xbf)
    if (byte(i + k) < low || byte(i + k) > high) return 0;
  return length;
}

}  // namespace

std::optional<size_t> first_not_utf8(std::string_view bytes) {
  for (size_t i = 0; i < bytes.size();) {
    const size_t length = character_length(bytes, i);
    if (length == 0) return i;
    i += length;
  }
  return std::nullopt;
}

void append_utf8(char32_t character, std::string& bytes) {
  const auto tail = [&](int shift) { bytes += static_cast<char>(0x80 | ((character >> shift) & 0x3f)); };
  if (character < 0x80) {
    bytes += static_cast<char>(character);
  } else if (character < 0x800) {
    bytes += static_cast<char>(0xc0 | (character >> 6));
    tail(0);
  } else if (character < 0x10000) {
    bytes += static_cast<char>(0xe0 | (character >> 12));
    tail(6);
    tail(0);
  } else {
    bytes += static_cast<char>(0xf0 | (character >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string escaped_bytes(std::string_view bytes) {
  constexpr const char* digits = "0123456789abcdef";
  std::string escaped;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f)
      escaped += c;
    else
      escaped += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
  }
  return escaped;
}

}  // namespace tessera::io
