#pragma once  // internal

#include <optional>
#include <string>
#include <string_view>

namespace tessera::io {

/// The offset of the first byte at which `bytes` is not UTF-8 (RFC 3629: no overlong forms, no surrogates,
/// nothing above U+10FFFF); nullopt when all of it is.
std::optional<size_t> first_not_utf8(std::string_view bytes);

/// Appends the UTF-8 bytes of one character, which must not be a surrogate.
void append_utf8(char32_t character, std::string& bytes);

/// The text with every byte that is not printable ASCII written as `\xff`: for messages about bytes that are
/// not UTF-8.
std::string escaped_bytes(std::string_view bytes);

}  // namespace tessera::io
