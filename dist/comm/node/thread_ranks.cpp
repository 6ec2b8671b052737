#include "dist/comm/node/thread_ranks.h"

#include <cstring>

#include "dist/comm/node/communicator.h"
#include "tensor/memory/cpu_allocator.h"

namespace tessera::dist {

/// All memory of the process is visible to all ranks.
class ThreadRanks::Memory : public node::SharedMemory {
 public:
  explicit Memory(int ranks)
      : SharedMemory(node::rank_indices(ranks), std::vector<uintptr_t>(static_cast<size_t>(ranks), 0), 0),
        block_of_each_(static_cast<size_t>(ranks)) {
    failure_ = &record_;
    for (node::RankBlock& block : block_of_each_) blocks_.push_back(&block);
  }
  ~Memory() override {
    for (const auto& [block, nbytes] : control_) cpu_free(block, nbytes);
  }

  bool is_visible(const void*, int64_t) const override { return true; }
  bool may_stage() const override { return false; }
  std::shared_ptr<void> take_staging_buffer(int64_t) override { return nullptr; }

  void* allocate_control(int64_t nbytes) override {
    void* block = cpu_allocate(nbytes);
    std::memset(block, 0, static_cast<size_t>(nbytes));
    const std::lock_guard lock(control_mutex_);
    control_.emplace_back(block, nbytes);
    return block;
  }

 private:
  node::FailureRecord record_;
  std::vector<node::RankBlock> block_of_each_;
  std::mutex control_mutex_;
  std::vector<std::pair<void*, int64_t>> control_;
};

ThreadRanks::ThreadRanks(int ranks, const ThreadRankOptions& options) {
  require<ConfigError>(ranks >= 1, "expected at least 1 rank, got ", ranks);
  memory_ = std::make_shared<Memory>(ranks);
  int64_t token = 0;
  for (int r = 0; r < ranks; ++r) {
    auto self = std::make_shared<node::Rank>(memory_, r, node::RankOptions{.timeout = options.timeout});
    if (r == 0) token = node::open_group_memory(*self, ranks);
    communicators_.push_back(std::make_shared<node::Communicator>(self, "world", node::rank_indices(ranks), r,
                                                                  token, std::make_shared<Ledger>()));
  }
}

ThreadRanks::~ThreadRanks() = default;

void ThreadRanks::fail(int rank, const std::string& message) {
  memory_->fail({.rank = rank, .message = message});
}

std::vector<std::shared_ptr<Communicator>> make_thread_communicators(int ranks,
                                                                     const ThreadRankOptions& options) {
  ThreadRanks made(ranks, options);
  std::vector<std::shared_ptr<Communicator>> all;
  for (int r = 0; r < ranks; ++r) all.push_back(made.take(r));
  return all;
}

}  // namespace tessera::dist
