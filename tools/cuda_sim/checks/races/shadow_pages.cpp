#include "tools/cuda_sim/checks/races/shadow_pages.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace tessera::cuda_sim {

namespace {

/// A chunk is mapped in huge pages where the host has them: its first use would else be a fault every 4 KiB.
constexpr size_t chunk_bytes = size_t{4} << 20, huge_page = size_t{2} << 20;

size_t bytes_of(uint32_t log_width) {
  return (size_t{ShadowPage::bytes} >> log_width) * sizeof(Cell);
}

}  // namespace

CellMemory::~CellMemory() {
  for (void* chunk : chunks_) std::free(chunk);
}

Cell* CellMemory::take(uint32_t log_width) {
  const std::lock_guard lock(mutex_);
  auto& free = free_[log_width];
  if (!free.empty()) {
    Cell* cells = free.back();
    free.pop_back();
    return cells;
  }
  if (chunks_.empty() || used_ + bytes_of(log_width) > chunk_bytes) {
    void* chunk = std::aligned_alloc(huge_page, chunk_bytes);
    if (chunk == nullptr) throw std::bad_alloc();
    madvise(chunk, chunk_bytes, MADV_HUGEPAGE);
    chunks_.push_back(chunk);
    used_ = 0;
  }
  auto* cells = reinterpret_cast<Cell*>(static_cast<std::byte*>(chunks_.back()) + used_);
  used_ += bytes_of(log_width);
  return cells;
}

void CellMemory::give_back(Cell* cells, uint32_t log_width) {
  const std::lock_guard lock(mutex_);
  free_[log_width].push_back(cells);
}

void ShadowPage::expand(CellMemory& memory) {
  cells_ = memory.take(log_width());
  fill_cells(cells_, bytes >> log_width(), alike_);
}

void ShadowPage::split(uint32_t log_width, CellMemory& memory) {
  const uint32_t before = this->log_width();
  splits_ = static_cast<uint8_t>(log_widest_cell - log_width);
  if (cells_ == nullptr) return;
  Cell* const parts = memory.take(log_width);
  split_cells(parts, cells_, bytes >> before, before - log_width);
  memory.give_back(cells_, before);
  cells_ = parts;
}

void ShadowPage::set_all(const Cell& cell, CellMemory& memory) {
  if (cells_ != nullptr) memory.give_back(cells_, log_width());
  cells_ = nullptr;
  splits_ = 0;
  alike_ = cell;
}

ShadowPages::ShadowPages(uint64_t begin, uint64_t bytes)
    : begin_(begin), count_((bytes + ShadowPage::bytes - 1) / ShadowPage::bytes) {
  // Zeros, which are pages that nothing has written, until they are touched.
  void* memory = mmap(nullptr, count_ * sizeof(ShadowPage), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  pages_ = static_cast<ShadowPage*>(memory);
}

ShadowPages::~ShadowPages() {
  munmap(pages_, count_ * sizeof(ShadowPage));
}

}  // namespace tessera::cuda_sim
