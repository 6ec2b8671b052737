#include "tools/cuda_sim/libraries/nccl/shared_team.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

namespace tessera::cuda_sim::nccl {

namespace {

constexpr size_t calls_at_once = 256, queue_bytes = 768, splits_at_once = 4;
constexpr uint64_t data_begin = uint64_t{1}
                                << 40;  ///< of each rank: sparse, so that offsets are never used twice

struct SharedRank {
  std::atomic<uint32_t> process, has_left, splits;
  std::atomic<uint64_t> token;  ///< of the process, since ids of processes come again
  std::array<SharedTeam::SplitEntry, splits_at_once> entries;
  char queue[queue_bytes];
  std::array<SharedCall, calls_at_once> calls;
};
struct SharedTable {
  std::atomic<uint32_t> changes, joined;
  SharedRank ranks[1];  // in truth one for each rank
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

uint64_t process_token() {
  static const uint64_t drawn = [] {
    uint64_t token = 0;
    if (getentropy(&token, sizeof token) != 0) token = 1;
    return token;
  }();
  return drawn ^ static_cast<uint64_t>(getpid()) << 32;
}

size_t table_bytes(int ranks) {
  return sizeof(SharedTable) + sizeof(SharedRank) * static_cast<size_t>(ranks);
}

/// Sleeps until `word` is no longer `seen`.
void sleep_on(const std::atomic<uint32_t>& word, uint32_t seen, std::chrono::milliseconds limit) {
  const timespec time{.tv_sec = limit.count() / 1000, .tv_nsec = limit.count() % 1000 * 1'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

/// A lock that the host gives up when the process ends, however that happens.
struct flock rank_lock(int rank, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

}  // namespace

struct SharedTeam::File {
  int descriptor = -1;
  SharedTable* table = nullptr;
  size_t bytes = 0;
  std::atomic<bool> is_left = false;
  ~File() {
    if (table != nullptr) munmap(table, bytes);
    if (descriptor >= 0) close(descriptor);
  }
  bool is_locked(int rank) const {
    struct flock lock = rank_lock(rank, F_WRLCK);
    return fcntl(descriptor, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
  }
};

SharedTeam::SharedTeam(std::string name, std::shared_ptr<File> file, int ranks, int rank)
    : name_(std::move(name)), file_(std::move(file)), ranks_(ranks), rank_(rank) {}

std::unique_ptr<SharedTeam> SharedTeam::join(const std::string& name, int ranks, int rank) {
  auto file = std::make_shared<File>();
  file->descriptor = shm_open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (file->descriptor < 0) return nullptr;
  file->bytes = table_bytes(ranks);
  if (ftruncate(file->descriptor, static_cast<off_t>(data_begin * (static_cast<uint64_t>(ranks) + 1))) != 0)
    return nullptr;
  void* memory = mmap(nullptr, file->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->descriptor, 0);
  if (memory == MAP_FAILED) return nullptr;
  file->table = static_cast<SharedTable*>(memory);
  struct flock lock = rank_lock(rank, F_WRLCK);
  SharedRank& mine = file->table->ranks[rank];
  if (fcntl(file->descriptor, F_OFD_SETLK, &lock) != 0 || mine.process.load() != 0) return nullptr;
  mine.token.store(process_token());
  mine.process.store(static_cast<uint32_t>(getpid()));
  std::unique_ptr<SharedTeam> team(new SharedTeam(name, file, ranks, rank));
  if (static_cast<int>(file->table->joined.fetch_add(1)) + 1 == ranks) shm_unlink(name.c_str());
  team->announce();
  return team;
}

SharedTeam::~SharedTeam() {
  if (!has_all()) shm_unlink(name_.c_str());  // else the last one to join did
  file_->table->ranks[rank_].has_left.store(1);
  file_->is_left = true;
  announce();
}

void SharedTeam::announce() {
  file_->table->changes.fetch_add(1);
  syscall(SYS_futex, &file_->table->changes, FUTEX_WAKE, ranks_, nullptr, nullptr, 0);
}

bool SharedTeam::wait_until(const std::function<bool()>& condition, std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (true) {
    const uint32_t seen = file_->table->changes.load();
    if (condition()) return true;
    if (std::chrono::steady_clock::now() >= end) return false;
    sleep_on(file_->table->changes, seen, std::chrono::milliseconds(20));
  }
}

bool SharedTeam::has_all() const {
  return static_cast<int>(file_->table->joined.load()) == ranks_;
}

bool SharedTeam::wait_for_all(std::chrono::milliseconds patience) {
  return wait_until([this] { return has_all(); }, patience);
}

bool SharedTeam::is_one_process() const {
  const SharedRank* const ranks = file_->table->ranks;
  return std::all_of(ranks, ranks + ranks_, [&](const SharedRank& one) {
    return one.process.load() == ranks[0].process.load() && one.token.load() == ranks[0].token.load();
  });
}

void SharedTeam::watch(std::function<void()> on_change) {
  // The thread owns the file with the team, and may outlive it: the team may be left with the runtime's lock
  // held.
  std::thread([file = file_, ranks = ranks_, on_change = std::move(on_change)] {
    uint32_t seen = file->table->changes.load();
    uint64_t gone = 0;
    while (!file->is_left) {
      sleep_on(file->table->changes, seen, std::chrono::milliseconds(100));
      const uint32_t now = file->table->changes.load();
      uint64_t gone_now = 0;
      for (int rank = 0; rank < ranks; ++rank) gone_now += file->is_locked(rank) ? 0 : 1;
      if (file->is_left || (now == seen && gone_now == gone)) continue;
      seen = now;
      gone = gone_now;
      on_change();
    }
  }).detach();
}

bool SharedTeam::publish(const SharedCall& call, std::span<const std::byte> data, uint32_t readers) {
  SharedRank& mine = file_->table->ranks[rank_];
  SharedCall* free = nullptr;
  for (SharedCall& one : mine.calls) {
    if (one.state.load() != SharedCall::none && one.readers.load() == 0) {
      if (one.bytes != 0)
        fallocate(file_->descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(one.offset), static_cast<off_t>(one.bytes));
      one.state.store(SharedCall::none);
    }
    if (free == nullptr && one.state.load() == SharedCall::none) free = &one;
  }
  if (free == nullptr) return false;
  const uint64_t offset = data_begin * (static_cast<uint64_t>(rank_) + 1) + next_offset_;
  for (size_t written = 0; written < data.size();) {
    const ssize_t count = pwrite(file_->descriptor, data.data() + written, data.size() - written,
                                 static_cast<off_t>(offset + written));
    if (count <= 0) return false;
    written += static_cast<size_t>(count);
  }
  next_offset_ += (data.size() + 4095) / 4096 * 4096;
  free->kind = call.kind;
  free->type = call.type;
  free->reduction = call.reduction;
  free->root = call.root;
  free->index = call.index;
  free->count = call.count;
  free->offset = offset;
  free->bytes = data.size();
  free->readers.store(readers);
  free->state.store(call.state.load());
  announce();
  return true;
}

SharedCall* SharedTeam::find(int rank, const std::function<bool(const SharedCall&)>& is_wanted) const {
  for (SharedCall& one : file_->table->ranks[rank].calls)
    if (one.state.load() != SharedCall::none && one.readers.load() != 0 && is_wanted(one)) return &one;
  return nullptr;
}

bool SharedTeam::read(const SharedCall& call, uint64_t begin, std::span<std::byte> to) const {
  for (size_t done = 0; done < to.size();) {
    const ssize_t count = pread(file_->descriptor, to.data() + done, to.size() - done,
                                static_cast<off_t>(call.offset + begin + done));
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

void SharedTeam::set_read(SharedCall& call) {
  call.readers.fetch_sub(1);
}

bool SharedTeam::exchange_split(SplitEntry mine, std::span<SplitEntry> all,
                                std::chrono::milliseconds patience) {
  SharedRank* const ranks = file_->table->ranks;
  const uint32_t number = splits_++;
  ranks[rank_].entries[number % splits_at_once] = mine;
  ranks[rank_].splits.store(number + 1);
  announce();
  const auto have_all = [&] {
    return std::all_of(ranks, ranks + ranks_,
                       [&](const SharedRank& one) { return one.splits.load() > number; });
  };
  const auto is_over = [&] {
    if (have_all()) return true;
    for (int rank = 0; rank < ranks_; ++rank)
      if (ranks[rank].splits.load() <= number && is_gone(rank)) return true;
    return false;
  };
  if (!wait_until(is_over, patience) || !have_all()) return false;
  for (int rank = 0; rank < ranks_; ++rank)
    all[static_cast<size_t>(rank)] = ranks[rank].entries[number % splits_at_once];
  return true;
}

bool SharedTeam::is_gone(int rank) const {
  if (rank == rank_) return false;
  return file_->table->ranks[rank].has_left.load() != 0 || !file_->is_locked(rank);
}

void SharedTeam::set_queue(const std::string& text) {
  char* const queue = file_->table->ranks[rank_].queue;
  const size_t length = std::min(text.size(), queue_bytes - 1);
  std::memcpy(queue, text.data(), length);
  queue[length] = '\0';
}

std::string SharedTeam::describe_rank(int rank) const {
  const SharedRank& one = file_->table->ranks[rank];
  std::string queue(one.queue, strnlen(one.queue, queue_bytes));
  std::string text = "rank " + std::to_string(rank) + " (process " + std::to_string(one.process.load()) + ")";
  if (one.has_left.load() != 0)
    text += " has left the communicator";
  else if (rank != rank_ && !file_->is_locked(rank))
    text += " has ended";
  return text + (queue.empty() ? ": waits for no call" : ": " + queue);
}

std::string SharedTeam::describe_others() const {
  std::string text;
  for (int rank = 0; rank < ranks_; ++rank)
    if (rank != rank_) text += "\n  " + describe_rank(rank);
  return text;
}

}  // namespace tessera::cuda_sim::nccl
