#include "tools/cuda_sim/memory/device_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <mutex>
#include <new>
#include <utility>

namespace tessera::cuda_sim {

namespace {

constexpr std::byte undefined_byte{0xff};

uint64_t round_up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

void* pointer(uint64_t address) {
  return reinterpret_cast<void*>(address);
}

uint64_t first_generation() {
  static std::atomic<uint64_t> memories = 0;
  return ++memories << 40;
}

/// Bytes of address space that an allocation takes: behind it lies a gap, so that an access past its end is
/// outside of every allocation.
uint64_t footprint(uint64_t bytes) {
  return round_up(std::max<uint64_t>(bytes, 1), DeviceMemory::alignment) + DeviceMemory::alignment;
}

/// Undefines freed bytes. Whole pages go back to the host.
void discard(uint64_t begin, uint64_t end) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t first_page = round_up(begin, page), last_page = end / page * page;
  if (first_page < last_page) {
    madvise(pointer(first_page), last_page - first_page, MADV_DONTNEED);
    std::memset(pointer(begin), static_cast<int>(undefined_byte), first_page - begin);
    std::memset(pointer(last_page), static_cast<int>(undefined_byte), end - last_page);
  } else {
    std::memset(pointer(begin), static_cast<int>(undefined_byte), end - begin);
  }
}

}  // namespace

DeviceMemory::DeviceMemory(uint64_t capacity_bytes)
    : reserved_(round_up(capacity_bytes * reserve_factor, uint64_t{1} << 21)),
      capacity_(capacity_bytes),
      generation_(first_generation()) {
  // A hint, so that addresses in findings are the same from run to run where the host allows it.
  void* range = mmap(pointer(0x7000'0000'0000u), reserved_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) throw std::bad_alloc();
  begin_ = next_ = reinterpret_cast<uint64_t>(range);
}

DeviceMemory::~DeviceMemory() {
  munmap(pointer(begin_), reserved_);
}

uint64_t DeviceMemory::take_fresh(uint64_t bytes) {
  if (footprint(bytes) > begin_ + reserved_ - next_) return 0;
  return std::exchange(next_, next_ + footprint(bytes));
}

uint64_t DeviceMemory::take_freed(uint64_t bytes) {
  const uint64_t wanted = footprint(bytes);
  uint64_t hole = begin_;
  auto first = allocations_.begin();
  for (auto it = first; it != allocations_.end(); ++it) {
    if (!it->second.is_live) continue;
    if (it->first - hole >= wanted) {
      allocations_.erase(first, it);
      return hole;
    }
    hole = it->first + footprint(it->second.bytes);
    first = std::next(it);
  }
  if (begin_ + reserved_ - hole < wanted) return 0;
  allocations_.erase(first, allocations_.end());
  next_ = hole + wanted;
  return hole;
}

uint64_t DeviceMemory::allocate(uint64_t bytes, std::string name) {
  const std::unique_lock lock(mutex_);
  const uint64_t counted = round_up(bytes, alignment);
  if (bytes > capacity_ || counted > capacity_ - std::min(capacity_, used_)) return 0;
  uint64_t address = take_fresh(bytes);
  if (address == 0) address = take_freed(bytes);
  if (address == 0) return 0;
  std::memset(pointer(address), static_cast<int>(undefined_byte), bytes);
  used_ += counted;
  allocations_[address] = {.address = address, .bytes = bytes, .number = ++count_, .name = std::move(name)};
  generation_.fetch_add(1, std::memory_order_release);
  return address;
}

bool DeviceMemory::release(uint64_t address, Operation freed_by) {
  const std::unique_lock lock(mutex_);
  const auto it = allocations_.find(address);
  if (it == allocations_.end() || !it->second.is_live) return false;
  it->second.is_live = false;
  it->second.freed_by = freed_by;
  used_ -= round_up(it->second.bytes, alignment);
  generation_.fetch_add(1, std::memory_order_release);
  discard(address, address + it->second.bytes);
  return true;
}

void DeviceMemory::rename(uint64_t address, std::string name) {
  const std::unique_lock lock(mutex_);
  const auto it = allocations_.upper_bound(address);
  if (it == allocations_.begin()) return;
  Allocation& allocation = std::prev(it)->second;
  if (allocation.is_live && address - allocation.address < allocation.bytes)
    allocation.name = std::move(name);
}

std::optional<Allocation> DeviceMemory::find(uint64_t address) const {
  const std::shared_lock lock(mutex_);
  const auto it = allocations_.upper_bound(address);
  if (it == allocations_.begin()) return std::nullopt;
  return std::prev(it)->second;
}

DeviceMemory::Range DeviceMemory::live_range(uint64_t address) const {
  const std::shared_lock lock(mutex_);
  const auto it = allocations_.upper_bound(address);
  if (it == allocations_.begin()) return {};
  const Allocation& allocation = std::prev(it)->second;
  if (!allocation.is_live || address - allocation.address >= allocation.bytes) return {};
  return {allocation.address, allocation.address + allocation.bytes};
}

uint64_t DeviceMemory::used() const {
  const std::shared_lock lock(mutex_);
  return used_;
}

std::map<uint64_t, Allocation> DeviceMemory::live() const {
  const std::shared_lock lock(mutex_);
  std::map<uint64_t, Allocation> result;
  for (const auto& [address, allocation] : allocations_)
    if (allocation.is_live) result.emplace(address, allocation);
  return result;
}

}  // namespace tessera::cuda_sim
