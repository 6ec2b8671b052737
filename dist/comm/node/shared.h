#pragma once  // internal

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dist/comm/interface/errors.h"
#include "dist/comm/node/layout.h"
#include "tensor/memory/storage.h"

namespace tessera::dist::node {

/// The memory that the ranks of one machine share, as one process sees it: that of the process itself where
/// the ranks are its threads (then all of them share one SharedMemory), or mapped segments. A reference is an
/// offset from its owner's base address, which is 0 among threads.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  int ranks() const { return static_cast<int>(world_ranks_.size()); }
  /// The rank in the world of the rank with this index on the machine.
  int world_rank(int rank) const { return world_ranks_[rank]; }
  RankBlock& block(int rank) const { return *blocks_[rank]; }
  /// The block of a rank of the world; null for one of another machine.
  RankBlock* block_of_world_rank(int rank) const;

  /// The address of a `reference` of `rank`, in this process.
  char* at(int rank, uint64_t reference) const { return reinterpret_cast<char*>(bases_[rank] + reference); }
  /// The reference to memory of this process.
  uint64_t reference(const void* own) const { return reinterpret_cast<uintptr_t>(own) - own_base_; }
  /// Whether the other ranks can read these bytes of this process.
  virtual bool is_visible(const void* data, int64_t nbytes) const = 0;
  /// A visible staging buffer for inputs that are not visible, aligned to 64 bytes; null where there is none
  /// now. Not called where all memory is visible.
  virtual std::shared_ptr<void> take_staging_buffer(int64_t nbytes) = 0;
  /// Whether inputs may have to be staged.
  virtual bool may_stage() const = 0;
  /// Where `Communicator::empty` takes its bytes from; null: the allocator.
  virtual std::shared_ptr<MemorySource> memory_source() const { return nullptr; }
  /// Visible zeros for a group's slots, aligned to 64 bytes; they live as long as this object.
  virtual void* allocate_control(int64_t nbytes) = 0;

  /// Records that the run has failed, unless a failure is recorded already, and signals all ranks.
  void fail(const RunFailure& failure);
  /// Throws the failure that `fail` recorded (`throw_failure`).
  void throw_if_failed() const {
    if (failure_->state.load(std::memory_order_acquire) == FailureRecord::written) [[unlikely]]
      throw_recorded();
  }
  bool has_failed() const { return failure_->state.load(std::memory_order_acquire) != FailureRecord::none; }

  /// Keeps what other ranks may still read until this object is destroyed.
  void keep(std::vector<std::shared_ptr<void>> objects);

 protected:
  SharedMemory(std::vector<int> world_ranks, std::vector<uintptr_t> bases, uintptr_t own_base)
      : world_ranks_(std::move(world_ranks)), bases_(std::move(bases)), own_base_(own_base) {}
  FailureRecord* failure_ = nullptr;
  std::vector<RankBlock*> blocks_;

 private:
  [[noreturn]] void throw_recorded() const;

  std::vector<int> world_ranks_;
  std::vector<uintptr_t> bases_;
  uintptr_t own_base_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<void>> kept_;
};

}  // namespace tessera::dist::node
