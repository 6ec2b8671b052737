#include "dist/train/monitors/tfrecord.h"

#include <array>

namespace tessera::training {
namespace {

/// The CRC of each byte: the division of its bits, least significant first, by the polynomial 0x1edc6f41.
constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78u : 0u);  // reversed polynomial
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> table = make_table();

template <class Integer>
std::string little_endian(Integer value) {
  std::string bytes(sizeof value, '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(value & 0xff);
    value >>= 8;
  }
  return bytes;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

std::string tfrecord(std::string_view payload) {
  const std::string length = little_endian(static_cast<uint64_t>(payload.size()));
  std::string record = length + little_endian(masked_crc32c(length));
  record += payload;
  return record + little_endian(masked_crc32c(payload));
}

}  // namespace tessera::training
