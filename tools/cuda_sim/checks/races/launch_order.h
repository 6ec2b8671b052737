// Order by release and acquire: across the blocks of a launch, and within one without a barrier.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tools/cuda_sim/checks/races/epoch_table.h"
#include "tools/cuda_sim/checks/races/knowledge.h"
#include "tools/cuda_sim/machine/types.h"

namespace tessera::cuda_sim {

class Warp;

/// Lanes of a warp at a point of their execution, and what they come after in their block.
struct ThreadPoint {
  uint32_t warp = 0, tick = 0, part = 0;
  LaneMask lanes = 0;
  std::array<uint32_t, max_warps_per_block> clock{};

  /// Whether the accesses of `before` in `epoch` of the same block come before this point.
  bool is_after(const Epoch& epoch, LaneMask before) const;
};

/// What a running block has fenced, read and acquired.
struct BlockReleases {
  struct Fence {
    ThreadPoint point;
    Knowledge knowledge;
    bool is_wide = false;  ///< of more than the block
  };
  struct Read {
    uint32_t warp = 0, tick = 0;
    LaneMask lanes = 0;
    Knowledge knowledge;
    std::vector<uint64_t> fresh;  ///< addresses that the host may not yet have read
  };
  std::vector<Fence> fences;
  std::vector<Read> pending;  ///< relaxed reads, which a fence makes acquires
  std::vector<Read> acquired;
  std::unordered_map<uint64_t, Knowledge> shared_variables;  ///< by address
  void clear() { *this = {}; }
};

/// The synchronising accesses of one launch (PTX ISA, "Memory Consistency Model": "Release and Acquire
/// Patterns", "Causality order"). A release pattern is a releasing write, or a fence and a strong write
/// later; an acquire pattern an acquiring read, or a strong read and a fence later. A read synchronises with
/// what it reads, and with all before it in a chain of atomics. A fence also serves the threads that a
/// barrier orders with it. Thread-safe.
class LaunchOrder {
 public:
  /// A strong access of one lane. `part` is of the lane's epoch. Returns whether it released.
  struct StrongAccess {
    uint64_t address = 0;
    uint32_t lane = 0, part = 0;
    bool is_shared = false, is_read = false, is_write = false;
    bool acquires = false, releases = false, is_wide = false;
  };
  bool access(BlockReleases& block, const Warp& warp, const StrongAccess& access);
  /// A fence of `lanes`.
  void fence(BlockReleases& block, Warp& warp, LaneMask lanes, uint32_t part, bool is_wide);
  /// A plain write ends the chain of releases at an address.
  void plain_write(BlockReleases& block, bool is_shared, uint64_t address, uint32_t bytes);

  /// Whether anything was fenced or released in this launch.
  bool is_used() const { return is_used_.load(std::memory_order_relaxed); }
  bool has_acquired(const BlockReleases& block) const { return !block.acquired.empty(); }
  /// Whether what `before` did in `epoch` comes before what the lanes `now` of `warp` do, by release and
  /// acquire.
  bool is_before(BlockReleases& block, const Warp& warp, LaneMask now, const Epoch& epoch, LaneMask before);
  void clear();

 private:
  struct Release {
    std::vector<std::pair<ThreadPoint, bool>> points;  ///< with `is_wide`
  };
  struct Publisher {
    std::vector<Release> releases;
  };
  Knowledge release(BlockReleases& block, const Warp& warp, const StrongAccess& access, Knowledge before,
                    bool& released);

  void refresh(std::vector<BlockReleases::Read>& reads);

  std::atomic<bool> is_used_ = false;
  std::mutex mutex_;
  std::unordered_map<uint64_t, Knowledge> variables_;
  std::vector<Publisher> publishers_;
  std::unordered_map<uint64_t, uint32_t> publisher_of_thread_;
  std::unordered_map<uint32_t, std::vector<uint32_t>> publishers_of_block_;
};

}  // namespace tessera::cuda_sim
