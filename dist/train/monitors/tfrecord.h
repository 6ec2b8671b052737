#pragma once  // internal

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::training {

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4).
uint32_t crc32c(std::string_view bytes);
/// The checksum as TFRecord stores it: rotated right by 15 bits, plus 0xa282ead8. The CRC of bytes that
/// contain their own CRC would be a constant; the mask prevents that.
uint32_t masked_crc32c(std::string_view bytes);
/// One record of a TFRecord file: the length of `payload` in 8 bytes, its masked CRC, `payload`, its masked
/// CRC; integers in little-endian order.
std::string tfrecord(std::string_view payload);

}  // namespace tessera::training
