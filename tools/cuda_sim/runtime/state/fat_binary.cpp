#include "tools/cuda_sim/runtime/state/fat_binary.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace tessera::cuda_sim {

namespace {

template <class T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// The layout is that of CUDA's fatbinary_section.h and of what `cuobjdump` shows.
constexpr uint32_t wrapper_magic = 0x466243b1, binary_magic = 0xba55ed50;
constexpr uint16_t kind_ptx = 1;
constexpr uint64_t flags_compressed = 0x2000 | 0x8000;

}  // namespace

std::vector<std::string> ptx_of_fat_binary(const void* wrapper) {
  const auto* head = static_cast<const std::byte*>(wrapper);
  if (read<uint32_t>(head) != wrapper_magic) throw std::runtime_error("this is no fat binary");
  const auto* binary = read<const std::byte*>(head + 8);
  if (read<uint32_t>(binary) != binary_magic) throw std::runtime_error("this fat binary has an unknown form");
  const auto header_bytes = read<uint16_t>(binary + 6);
  const std::byte* entry = binary + header_bytes;
  const std::byte* end = entry + read<uint64_t>(binary + 8);
  std::vector<std::string> texts;
  while (entry < end) {
    const auto entry_header = read<uint32_t>(entry + 4);
    const auto bytes = read<uint64_t>(entry + 8);
    if (read<uint16_t>(entry) == kind_ptx) {
      if ((read<uint64_t>(entry + 40) & flags_compressed) != 0)
        throw std::runtime_error("its PTX is compressed; compile with -Xfatbin --compress-mode=none");
      const char* text = reinterpret_cast<const char*>(entry + entry_header);
      texts.emplace_back(text, strnlen(text, bytes));
    }
    entry += entry_header + bytes;
  }
  return texts;
}

}  // namespace tessera::cuda_sim
