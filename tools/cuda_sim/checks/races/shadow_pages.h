// The cells of a range of memory, by pages.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "tools/cuda_sim/checks/races/cell.h"

namespace tessera::cuda_sim {

/// Memory for the cells of pages, in a size for each width of cells; what is given back is used again.
/// Thread-safe.
class CellMemory {
 public:
  CellMemory() = default;
  ~CellMemory();
  CellMemory(const CellMemory&) = delete;
  CellMemory& operator=(const CellMemory&) = delete;
  /// Cells of a page, each of 2^`log_width` bytes, without values.
  Cell* take(uint32_t log_width);
  void give_back(Cell* cells, uint32_t log_width);

 private:
  std::mutex mutex_;
  std::vector<void*> chunks_;
  size_t used_ = 0;  ///< bytes of the last chunk
  std::array<std::vector<Cell*>, log_widest_cell + 1> free_;
};

/// The cells of `bytes` bytes of memory, at first the widest ones. Locked while in use.
class ShadowPage {
 public:
  static constexpr uint32_t bytes = 4096;

  void lock() {
    while (is_locked_.exchange(1, std::memory_order_acquire) != 0)
      while (is_locked_.load(std::memory_order_relaxed) != 0) {
      }
  }
  void unlock() { is_locked_.store(0, std::memory_order_release); }

  uint32_t log_width() const { return log_widest_cell - splits_; }
  uint32_t cell_bytes() const { return 1u << log_width(); }
  /// The cell of byte `offset`; `cell_bytes()` divides what is accessed from there on after `split_to`.
  Cell* cells(uint32_t offset, CellMemory& memory) {
    if (cells_ == nullptr) expand(memory);
    return cells_ + (offset >> log_width());
  }
  /// Makes cells of at most 2^`log_width` bytes.
  void split_to(uint32_t log_width, CellMemory& memory) {
    if (log_width < this->log_width()) split(log_width, memory);
  }
  /// All cells alike; gives memory back.
  void set_all(const Cell& cell, CellMemory& memory);
  bool is_alike() const { return cells_ == nullptr; }
  const Cell& alike() const { return alike_; }

 private:
  void expand(CellMemory& memory);
  void split(uint32_t log_width, CellMemory& memory);
  std::atomic<uint8_t> is_locked_;
  uint8_t splits_;  ///< in halves
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

  ShadowPage& at(uint64_t address) { return pages_[(address - begin_) / ShadowPage::bytes]; }
  CellMemory& memory() { return memory_; }

 private:
  uint64_t begin_, count_;
  CellMemory memory_;
  ShadowPage* pages_;
};

}  // namespace tessera::cuda_sim
