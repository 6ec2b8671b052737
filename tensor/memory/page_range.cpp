#include "tensor/memory/page_range.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace tessera {
namespace {

int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

PageRange::PageRange(int64_t bytes) {
  const int64_t wanted = round_up(bytes, growth);
  // Addresses without access rights take no memory and count against no limit on memory.
  void* const base =
      mmap(nullptr, wanted + growth, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0);
  if (base == MAP_FAILED) return;
  reserved_ = static_cast<std::byte*>(base);
  reserved_bytes_ = wanted + growth;
  // Untouched pages of the bits take no memory either.
  held_ = static_cast<uint64_t*>(std::calloc(wanted / granule / 64 + 1, sizeof(uint64_t)));
  if (!held_) return;
  begin_ = reserved_ + (growth - reinterpret_cast<intptr_t>(base) % growth) % growth;
  bytes_ = wanted;
  madvise(begin_, bytes_, MADV_HUGEPAGE);  // advice: a refusal costs speed only
}

PageRange::PageRange(PageRange&& other) noexcept
    : reserved_(std::exchange(other.reserved_, nullptr)),
      reserved_bytes_(std::exchange(other.reserved_bytes_, 0)),
      begin_(std::exchange(other.begin_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      top_(std::exchange(other.top_, 0)),
      held_(std::exchange(other.held_, nullptr)) {}

PageRange::~PageRange() {
  if (reserved_) munmap(reserved_, reserved_bytes_);
  std::free(held_);
}

int64_t PageRange::top_for(const void* to) const {
  const int64_t needed = static_cast<const std::byte*>(to) - begin_;
  return needed <= top_ ? top_ : std::min(bytes_, round_up(needed, growth));
}

int64_t PageRange::missing(const void* from, const void* to) const {
  const int64_t last = std::min(granule_of(static_cast<const std::byte*>(to) - 1) + 1, top_ / granule);
  int64_t granules = 0;
  for (int64_t i = granule_of(from); i < last; ++i) granules += !is_held(i);
  return granules * granule + top_for(to) - top_;
}

int64_t PageRange::commit(const void* from, const void* to) {
  const int64_t taken = missing(from, to), top = top_for(to);
  if (top > top_ && mprotect(begin_ + top_, top - top_, PROT_READ | PROT_WRITE) != 0) return -1;
  const auto hold = [this](int64_t i) { held_[i / 64] |= uint64_t{1} << (i % 64); };
  for (int64_t i = granule_of(from); i <= granule_of(static_cast<const std::byte*>(to) - 1); ++i) hold(i);
  for (int64_t i = top_ / granule; i < top / granule; ++i) hold(i);
  top_ = top;
  return taken;
}

int64_t PageRange::release(const void* from, const void* to) noexcept {
  const int64_t first = granule_of(static_cast<const std::byte*>(from) + granule - 1),
                last = std::min(granule_of(to), top_ / granule);
  int64_t given = 0;
  for (int64_t i = first; i < last;) {
    int64_t end = i;
    while (end < last && is_held(end)) held_[end / 64] &= ~(uint64_t{1} << (end % 64)), ++end;
    if (end > i) madvise(begin_ + i * granule, (end - i) * granule, MADV_DONTNEED);
    given += (end - i) * granule;
    i = end + 1;
  }
  return given;
}

}  // namespace tessera
