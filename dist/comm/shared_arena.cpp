#include "dist/comm/shared_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "tensor/error.h"
#include "tensor/memory/cpu_allocator.h"

namespace tessera::dist {
namespace {

constexpr int64_t page = 4096;
constexpr int64_t failure_offset = (sizeof(node::RankBlock) + 63) / 64 * 64;
/// Where the blocks that are given out begin.
constexpr int64_t first_block = 4 * page;
static_assert(failure_offset + static_cast<int64_t>(sizeof(node::FailureRecord)) <= first_block);

int64_t machine_memory() {
  return static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(::sysconf(_SC_PAGESIZE));
}

std::string new_name() {
  static std::atomic<int> made{0};
  timespec now;
  ::clock_gettime(CLOCK_REALTIME, &now);
  return text("/tessera-", ::getpid(), "-", made++, "-", now.tv_nsec);
}

[[noreturn]] void throw_failed(const char* what, const std::string& name, int error) {
  throw OutOfMemoryError(text("shared memory ", name, ": ", what, " failed: ", std::strerror(error)));
}

}  // namespace

SharedMapping::SharedMapping(const std::string& name, int64_t capacity, bool is_new) : capacity_(capacity) {
  file_ = ::shm_open(name.c_str(), O_RDWR | O_CLOEXEC | (is_new ? O_CREAT | O_EXCL : 0), 0600);
  if (file_ < 0) throw_failed("opening", name, errno);
  const auto fail = [&](const char* what) {
    const int error = errno;
    ::close(file_);
    if (is_new) ::shm_unlink(name.c_str());
    throw_failed(what, name, error);
  };
  if (is_new && ::ftruncate(file_, capacity) != 0) fail("setting its size");
  void* data = ::mmap(nullptr, static_cast<size_t>(capacity), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_NORESERVE, file_, 0);
  if (data == MAP_FAILED) fail("mapping");
  data_ = static_cast<char*>(data);
}

SharedMapping SharedMapping::create(const std::string& name, int64_t capacity) {
  return SharedMapping(name, capacity, true);
}

SharedMapping SharedMapping::open(const std::string& name, int64_t capacity) {
  return SharedMapping(name, capacity, false);
}

SharedMapping::SharedMapping(SharedMapping&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      capacity_(other.capacity_) {}

SharedMapping::~SharedMapping() {
  if (data_) ::munmap(data_, static_cast<size_t>(capacity_));
  if (file_ >= 0) ::close(file_);
}

bool SharedMapping::reserve(int64_t offset, int64_t nbytes) {
  int error;
  do {
    error = ::posix_fallocate(file_, offset, nbytes);
  } while (error == EINTR);
  if (error != 0) return false;
#ifdef MADV_POPULATE_WRITE
  ::madvise(data_ + offset, static_cast<size_t>(nbytes), MADV_POPULATE_WRITE);  // now, not inside a step
#endif
  return true;
}

node::FailureRecord& SharedArena::failure_in(char* memory) {
  return *reinterpret_cast<node::FailureRecord*>(memory + failure_offset);
}

std::shared_ptr<SharedArena> SharedArena::create(const ArenaOptions& options) {
  return std::shared_ptr<SharedArena>(new SharedArena(new_name(), options));
}

SharedArena::SharedArena(std::string name, const ArenaOptions& options)
    : options_(options), name_(std::move(name)), memory_(SharedMapping::create(name_, machine_memory())) {
  if (!grow(options_.step)) {
    ::shm_unlink(name_.c_str());
    throw OutOfMemoryError(
        text("shared memory ", name_, ": ", options_.step, " bytes could not be reserved"));
  }
  free_.take(first_block);  // the lowest there is: offset 0
  const int64_t kept = options_.step / 4;
  kept_begin_ = free_.take(kept);
  kept_end_ = kept_begin_ + FreeRanges::rounded(kept);
  kept_back_.give(kept_begin_, kept);
  new (memory_.data()) node::RankBlock;
  new (memory_.data() + failure_offset) node::FailureRecord;
}

SharedArena::~SharedArena() {
  unlink();
}

void SharedArena::unlink() {
  if (std::exchange(linked_, false)) ::shm_unlink(name_.c_str());
}

bool SharedArena::holds(const void* data, int64_t nbytes) const {
  const auto begin = reinterpret_cast<uintptr_t>(data), base = reinterpret_cast<uintptr_t>(memory_.data());
  return begin >= base && begin + static_cast<uintptr_t>(nbytes) <= base + static_cast<uintptr_t>(capacity());
}

bool SharedArena::grow(int64_t nbytes) {
  const int64_t missing = nbytes - free_.free_before(reserved_);
  const int64_t step = (std::max(missing, options_.step) + page - 1) / page * page;
  const int64_t limit = options_.limit ? std::min(options_.limit, capacity()) : capacity();
  for (const int64_t more : {step, (missing + page - 1) / page * page}) {
    if (reserved_ + more > limit || !memory_.reserve(reserved_, more)) continue;
    free_.give(reserved_, more);
    reserved_ += more;
    return true;
  }
  return false;
}

/// The offset of a block that is not kept back; -1 where there is no room.
int64_t SharedArena::take_range(int64_t nbytes) {
  const int64_t offset = free_.take(nbytes);
  return offset < 0 && grow(FreeRanges::rounded(nbytes)) ? free_.take(nbytes) : offset;
}

void* SharedArena::take_shared(int64_t nbytes) {
  const std::lock_guard lock(mutex_);
  const int64_t size = std::max<int64_t>(nbytes, 1);
  int64_t offset = take_range(size);
  if (offset < 0) offset = kept_back_.take(size);
  return offset < 0 ? nullptr : memory_.data() + offset;
}

void* SharedArena::take(int64_t nbytes) {
  {
    const std::lock_guard lock(mutex_);
    const int64_t offset = take_range(std::max<int64_t>(nbytes, 1));
    if (offset >= 0) return memory_.data() + offset;
  }
  void* const block = cpu_allocate(nbytes);
  const std::lock_guard lock(mutex_);
  outside_ += nbytes;
  return block;
}

void SharedArena::give(void* block, int64_t nbytes) noexcept {
  const bool is_shared = holds(block, 1);
  if (!is_shared) cpu_free(block, nbytes);
  const std::lock_guard lock(mutex_);
  if (!is_shared) {
    outside_ -= nbytes;
    return;
  }
  const int64_t offset = static_cast<char*>(block) - memory_.data();
  const bool is_kept = kept_begin_ <= offset && offset < kept_end_;
  (is_kept ? kept_back_ : free_).give(offset, std::max<int64_t>(nbytes, 1));
}

int64_t SharedArena::reserved() const {
  const std::lock_guard lock(mutex_);
  return reserved_;
}

int64_t SharedArena::outside() const {
  const std::lock_guard lock(mutex_);
  return outside_;
}

}  // namespace tessera::dist
