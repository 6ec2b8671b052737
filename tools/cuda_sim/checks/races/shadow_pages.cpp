#include "tools/cuda_sim/checks/races/shadow_pages.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace tessera::cuda_sim {

namespace {

/// A chunk is mapped in huge pages where the host has them: its first use would else be a fault every 4 KiB.
constexpr size_t chunk_bytes = size_t{4} << 20, huge_page = size_t{2} << 20;

size_t bytes_of(uint32_t splits) {
  return size_t{ShadowPage::bytes} / 4 * sizeof(Cell) << splits;
}

}  // namespace

CellMemory::~CellMemory() {
  for (void* chunk : chunks_) std::free(chunk);
}

Cell* CellMemory::take(uint32_t splits) {
  const std::lock_guard lock(mutex_);
  auto& free = free_[splits];
  if (!free.empty()) {
    Cell* cells = free.back();
    free.pop_back();
    return cells;
  }
  if (chunks_.empty() || used_ + bytes_of(splits) > chunk_bytes) {
    void* chunk = std::aligned_alloc(huge_page, chunk_bytes);
    if (chunk == nullptr) throw std::bad_alloc();
    madvise(chunk, chunk_bytes, MADV_HUGEPAGE);
    chunks_.push_back(chunk);
    used_ = 0;
  }
  auto* cells = reinterpret_cast<Cell*>(static_cast<std::byte*>(chunks_.back()) + used_);
  used_ += bytes_of(splits);
  return cells;
}

void CellMemory::give_back(Cell* cells, uint32_t splits) {
  const std::lock_guard lock(mutex_);
  free_[splits].push_back(cells);
}

void ShadowPage::expand(CellMemory& memory) {
  cells_ = memory.take(splits_);
  fill_cells(cells_, bytes / cell_bytes(), alike_);
}

void ShadowPage::split_to(uint32_t width, CellMemory& memory) {
  while (cell_bytes() > width) {
    const uint32_t count = bytes / cell_bytes();
    ++splits_;
    if (cells_ == nullptr) continue;
    Cell* halves = memory.take(splits_);
    for (uint32_t i = 0; i < count; ++i) halves[2 * i] = halves[2 * i + 1] = cells_[i];
    memory.give_back(cells_, splits_ - 1u);
    cells_ = halves;
  }
}

void ShadowPage::set_all(const Cell& cell, CellMemory& memory) {
  if (cells_ != nullptr) memory.give_back(cells_, splits_);
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
