#pragma once  // internal

#include <string>
#include <string_view>

namespace tessera::data {

/// The characters (Unicode code points) of UTF-8 text. Strict (RFC 3629, the Unicode Standard's table 3-7):
/// no overlong forms, no surrogates, nothing above U+10FFFF. Throws DataError naming `source`, the offset of
/// the first bad byte, its value, and its line.
std::u32string decode_utf8(std::string_view bytes, std::string_view source);

/// Appends the UTF-8 bytes of one character.
void append_utf8(char32_t character, std::string& bytes);

/// A character as error messages show it: 'a' (U+0061); control characters by number only.
std::string describe_character(char32_t character);

}  // namespace tessera::data
