#include "tools/cuda_sim/checks/races/shadow_pages.h"

#include <sys/mman.h>

#include <new>

namespace tessera::cuda_sim {

void ShadowPage::expand() {
  const uint32_t count = bytes / cell_bytes();
  cells_ = new Cell[count];
  fill_cells(cells_, count, alike_);
}

void ShadowPage::split_to(uint32_t width) {
  while (cell_bytes() > width) {
    const uint32_t count = bytes / cell_bytes();
    ++splits_;
    if (cells_ == nullptr) continue;
    auto* halves = new Cell[size_t{2} * count];
    for (uint32_t i = 0; i < count; ++i) halves[2 * i] = halves[2 * i + 1] = cells_[i];
    delete[] cells_;
    cells_ = halves;
  }
}

void ShadowPage::set_all(const Cell& cell) {
  delete[] cells_;
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
  for (uint64_t i = 0; i < used_.load(); ++i) pages_[i].set_all({});
  munmap(pages_, count_ * sizeof(ShadowPage));
}

void ShadowPages::use(uint64_t number) {
  uint64_t used = used_.load();
  while (used <= number && !used_.compare_exchange_weak(used, number + 1)) {
  }
}

}  // namespace tessera::cuda_sim
