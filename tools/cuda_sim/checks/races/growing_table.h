// An array that grows and never moves.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace tessera::cuda_sim {

/// Elements by number. Chunks double in size, so that a small table is small and a large one has few of them.
/// Elements may be read while others are made; `make` is called by one thread at a time.
template <class T>
class GrowingTable {
 public:
  GrowingTable() = default;
  ~GrowingTable() {
    for (std::atomic<T*>& chunk : chunks_) delete[] chunk.load();
  }
  GrowingTable(const GrowingTable&) = delete;
  GrowingTable& operator=(const GrowingTable&) = delete;

  const T& operator[](uint32_t number) const {
    const uint32_t chunk = chunk_of(number);
    return chunks_[chunk].load(std::memory_order_acquire)[number - first_of(chunk)];
  }
  /// The element, to be written before its number is handed on.
  T& make(uint32_t number) {
    const uint32_t chunk = chunk_of(number);
    T* elements = chunks_[chunk].load(std::memory_order_relaxed);
    if (elements == nullptr) {
      elements = new T[first_chunk << chunk];
      chunks_[chunk].store(elements, std::memory_order_release);
    }
    return elements[number - first_of(chunk)];
  }

 private:
  static constexpr uint32_t first_chunk = 128;
  static uint32_t chunk_of(uint32_t number) {
    return static_cast<uint32_t>(std::bit_width(number / first_chunk + 1)) - 1;
  }
  static uint32_t first_of(uint32_t chunk) { return first_chunk * ((1u << chunk) - 1); }

  std::array<std::atomic<T*>, 25> chunks_{};
};

}  // namespace tessera::cuda_sim
