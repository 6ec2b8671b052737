// The cells of a range of memory, by pages.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tools/cuda_sim/checks/races/cell.h"

namespace tessera::cuda_sim {

/// The cells of `bytes` bytes of memory. Locked while in use.
class ShadowPage {
 public:
  static constexpr uint32_t bytes = 4096;

  void lock() {
    while (is_locked_.exchange(1, std::memory_order_acquire) != 0)
      while (is_locked_.load(std::memory_order_relaxed) != 0) {
      }
  }
  void unlock() { is_locked_.store(0, std::memory_order_release); }

  uint32_t cell_bytes() const { return 4u >> splits_; }
  /// The cell of byte `offset`; `cell_bytes()` divides what is accessed from there on after `split_to`.
  Cell* cells(uint32_t offset) {
    if (cells_ == nullptr) expand();
    return cells_ + offset / cell_bytes();
  }
  /// Makes cells of at most `width` bytes: 4, 2 or 1.
  void split_to(uint32_t width);
  /// All cells alike; gives memory back.
  void set_all(const Cell& cell);
  bool is_alike() const { return cells_ == nullptr; }
  const Cell& alike() const { return alike_; }

 private:
  void expand();
  std::atomic<uint8_t> is_locked_;
  uint8_t splits_;
  Cell* cells_;
  Cell alike_;
};

/// Pages for a range of addresses; those never used take no memory.
class ShadowPages {
 public:
  ShadowPages(uint64_t begin, uint64_t bytes);
  ~ShadowPages();
  ShadowPages(const ShadowPages&) = delete;
  ShadowPages& operator=(const ShadowPages&) = delete;

  ShadowPage& at(uint64_t address) {
    const uint64_t number = (address - begin_) / ShadowPage::bytes;
    if (number >= used_.load(std::memory_order_relaxed)) use(number);
    return pages_[number];
  }

 private:
  void use(uint64_t number);
  uint64_t begin_, count_;
  std::atomic<uint64_t> used_ = 0;  ///< pages from here on were never asked for
  ShadowPage* pages_;
};

}  // namespace tessera::cuda_sim
