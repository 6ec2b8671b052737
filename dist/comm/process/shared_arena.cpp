#include "dist/comm/process/shared_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <random>
#include <utility>

#include "tensor/error.h"
#include "tensor/memory/cpu_allocator.h"

namespace tessera::dist {
namespace {

constexpr int64_t page = 4096;
constexpr int64_t failure_offset = (sizeof(node::RankBlock) + 63) / 64 * 64;
/// Where the blocks that are allocated begin.
constexpr int64_t first_block = 4 * page;
constexpr int64_t token_offset = 3 * page;
static_assert(failure_offset + static_cast<int64_t>(sizeof(node::FailureRecord)) <= token_offset);

int64_t machine_memory() {
  return static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(::sysconf(_SC_PAGESIZE));
}

[[noreturn]] void throw_failed(const std::string& what, int error) {
  throw OutOfMemoryError(text("shared memory: ", what, " failed: ", std::strerror(error)));
}

uint64_t random_number() {
  std::random_device source;
  return static_cast<uint64_t>(source()) << 32 | source();
}

/// A file in shared memory without a name. Where /dev/shm has no such files, one whose name is removed at
/// once.
int open_nameless() {
  const int file = ::open("/dev/shm", O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return file;
  const std::string name = text("/tessera-", ::getpid(), "-", random_number());
  const int named = ::shm_open(name.c_str(), O_RDWR | O_CLOEXEC | O_CREAT | O_EXCL, 0600);
  if (named >= 0) ::shm_unlink(name.c_str());
  return named;
}

}  // namespace

SharedMapping::SharedMapping(int file, int64_t capacity, const std::string& what)
    : file_(file), capacity_(capacity) {
  void* data = ::mmap(nullptr, static_cast<size_t>(capacity), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_NORESERVE, file_, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    ::close(file_);
    throw_failed("mapping " + what, error);
  }
  data_ = static_cast<char*>(data);
}

SharedMapping SharedMapping::create(int64_t capacity) {
  const int file = open_nameless();
  if (file < 0) throw_failed("a new file in /dev/shm", errno);
  if (::ftruncate(file, capacity) != 0) {
    const int error = errno;
    ::close(file);
    throw_failed("setting its size", error);
  }
  return SharedMapping(file, capacity, "a new file in /dev/shm");
}

SharedMapping SharedMapping::open(const ArenaPlace& place) {
  const std::string what = text("the memory of process ", place.process.pid);
  require<OutOfMemoryError>(is_running(place.process), "shared memory: ", what, " is not visible from here");
  const std::string path = text("/proc/", place.process.pid, "/fd/", place.file);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) throw_failed(text("opening ", what, " (", path, ")"), errno);
  struct stat status {};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size != place.capacity) {
    ::close(file);
    throw OutOfMemoryError(text("shared memory: ", path, " is not ", what));
  }
  return SharedMapping(file, place.capacity, what);
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
  return std::shared_ptr<SharedArena>(new SharedArena(options));
}

SharedArena::SharedArena(const ArenaOptions& options)
    : options_(options), memory_(SharedMapping::create(machine_memory())), token_(random_number()) {
  require<OutOfMemoryError>(grow(options_.step), "shared memory: ", options_.step,
                            " bytes in /dev/shm could not be reserved");
  free_.acquire(first_block);  // the lowest there is: offset 0
  const int64_t reserve = options_.step / 4;
  reserve_begin_ = free_.acquire(reserve);
  reserve_end_ = reserve_begin_ + FreeRanges::rounded(reserve);
  reserve_.release(reserve_begin_, reserve);
  new (memory_.data()) node::RankBlock;
  new (memory_.data() + failure_offset) node::FailureRecord;
  std::memcpy(memory_.data() + token_offset, &token_, sizeof token_);
}

ArenaPlace SharedArena::place() const {
  return {.process = this_process(), .capacity = capacity(), .token = token_, .file = memory_.file()};
}

SharedMapping SharedArena::open(const ArenaPlace& place) {
  SharedMapping mapping = SharedMapping::open(place);
  require<OutOfMemoryError>(std::memcmp(mapping.data() + token_offset, &place.token, sizeof place.token) == 0,
                            "shared memory: descriptor ", place.file, " of process ", place.process.pid,
                            " is not the arena that was announced");
  return mapping;
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
    free_.release(reserved_, more);
    reserved_ += more;
    return true;
  }
  return false;
}

/// The offset of a block outside the reserve; -1 where there is no room.
int64_t SharedArena::take_range(int64_t nbytes) {
  const int64_t offset = free_.acquire(nbytes);
  return offset < 0 && grow(FreeRanges::rounded(nbytes)) ? free_.acquire(nbytes) : offset;
}

void* SharedArena::take_shared(int64_t nbytes) {
  const std::lock_guard lock(mutex_);
  const int64_t size = std::max<int64_t>(nbytes, 1);
  int64_t offset = take_range(size);
  if (offset < 0) offset = reserve_.acquire(size);
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
  const bool is_in_reserve = reserve_begin_ <= offset && offset < reserve_end_;
  (is_in_reserve ? reserve_ : free_).release(offset, std::max<int64_t>(nbytes, 1));
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
