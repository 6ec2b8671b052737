#include "tools/cuda_sim/checks/races/launch_order.h"

#include <algorithm>
#include <bit>
#include <span>

#include "tools/cuda_sim/machine/block.h"

namespace tessera::cuda_sim {

namespace {

uint32_t tick_of(const Warp& warp) {
  return warp.clock[warp.number()];
}

/// Whether what `lanes` of warp `from` did at `tick` comes before what `lane` of `warp` does now.
bool is_visible(const Warp& warp, uint32_t lane, uint32_t from, uint32_t tick, LaneMask lanes) {
  if (from != warp.number()) return warp.clock[from] >= tick;
  return tick < tick_of(warp) || (lanes >> lane & 1) != 0;
}

Knowledge visible_knowledge(std::span<const BlockReleases::Read> reads, const Warp& warp, LaneMask lanes) {
  Knowledge known;
  for (const BlockReleases::Read& read : reads) {
    bool is_seen = false;
    for (LaneMask left = lanes; left != 0 && !is_seen; left &= left - 1)
      is_seen =
          is_visible(warp, static_cast<uint32_t>(std::countr_zero(left)), read.warp, read.tick, read.lanes);
    if (is_seen) known = known.joined(read.knowledge);
  }
  return known;
}

BlockReleases::Read& read_of(std::vector<BlockReleases::Read>& reads, const Warp& warp, LaneMask lanes) {
  for (auto read = reads.rbegin(); read != reads.rend(); ++read) {
    if (read->warp != warp.number()) continue;
    if (read->tick != tick_of(warp)) break;  // older ones follow
    if (read->lanes == lanes) return *read;
  }
  reads.push_back(
      {.warp = warp.number(), .tick = tick_of(warp), .lanes = lanes, .knowledge = {}, .fresh = {}});
  return reads.back();
}

ThreadPoint point_of(const Warp& warp, LaneMask lanes, uint32_t part) {
  return {.warp = warp.number(), .tick = tick_of(warp), .part = part, .lanes = lanes, .clock = warp.clock};
}

/// Forgets fences that a later one of the same lanes stands for, with every warp of the block.
void prune(std::vector<BlockReleases::Fence>& fences, Warp& warp) {
  constexpr size_t many = 128;
  if (fences.size() < many) return;
  std::vector<BlockReleases::Fence> kept;
  for (size_t i = 0; i < fences.size(); ++i) {
    const ThreadPoint& point = fences[i].point;
    const bool is_replaced =
        std::any_of(fences.begin() + static_cast<ptrdiff_t>(i) + 1, fences.end(), [&](const auto& later) {
          if (later.point.warp != point.warp || (point.lanes & ~later.point.lanes) != 0 ||
              (fences[i].is_wide && !later.is_wide))
            return false;
          const auto warps = warp.block().warps();
          return std::all_of(warps.begin(), warps.end(),
                             [&](const Warp& other) { return other.clock[point.warp] >= later.point.tick; });
        });
    if (!is_replaced) kept.push_back(std::move(fences[i]));
  }
  fences = std::move(kept);
}

}  // namespace

bool ThreadPoint::is_after(const Epoch& epoch, LaneMask before) const {
  if (epoch.warp != warp) return clock[epoch.warp] >= epoch.tick;
  if (epoch.tick != tick) return epoch.tick < tick;
  return (before & ~lanes) == 0 && epoch.part <= part;
}

/// A read was checked before the host carried it out, and another host thread may have released in between.
void LaunchOrder::refresh(std::vector<BlockReleases::Read>& reads) {
  const std::lock_guard lock(mutex_);
  for (BlockReleases::Read& read : reads) {
    for (const uint64_t address : read.fresh)
      if (const auto found = variables_.find(address); found != variables_.end())
        read.knowledge = read.knowledge.joined(found->second);
    read.fresh.clear();
  }
}

void LaunchOrder::fence(BlockReleases& block, Warp& warp, LaneMask lanes, uint32_t part, bool is_wide) {
  is_used_.store(true, std::memory_order_relaxed);
  refresh(block.pending);
  refresh(block.acquired);
  for (LaneMask left = lanes; left != 0 && !block.pending.empty(); left &= left - 1) {
    const LaneMask lane = left & (~left + 1);
    const Knowledge read = visible_knowledge(block.pending, warp, lane);
    if (read.is_empty()) continue;
    Knowledge& known = read_of(block.acquired, warp, lane).knowledge;
    known = known.joined(read);
  }
  const Knowledge known = visible_knowledge(block.acquired, warp, lanes);
  for (BlockReleases::Fence& fence : block.fences) {
    if (fence.point.warp != warp.number() || fence.point.tick != tick_of(warp) ||
        fence.point.lanes != lanes || fence.is_wide != is_wide)
      continue;
    fence = {.point = point_of(warp, lanes, part), .knowledge = known, .is_wide = is_wide};
    return;
  }
  prune(block.fences, warp);
  block.fences.push_back({.point = point_of(warp, lanes, part), .knowledge = known, .is_wide = is_wide});
}

Knowledge LaunchOrder::release(BlockReleases& block, const Warp& warp, const StrongAccess& access,
                               Knowledge before, bool& released) {
  Release made;
  Knowledge known = std::move(before);
  std::array<LaneMask, max_warps_per_block> seen{};
  if (access.releases) {
    made.points.emplace_back(point_of(warp, 1u << access.lane, access.part), access.is_wide);
    known = known.joined(visible_knowledge(block.acquired, warp, 1u << access.lane));
  }
  for (auto fence = block.fences.rbegin(); fence != block.fences.rend(); ++fence) {
    const ThreadPoint& point = fence->point;
    if (!is_visible(warp, access.lane, point.warp, point.tick, point.lanes)) continue;
    if ((point.lanes & ~seen[point.warp]) == 0) continue;
    if (fence->is_wide) seen[point.warp] |= point.lanes;
    made.points.emplace_back(point, fence->is_wide && access.is_wide);
    known = known.joined(fence->knowledge);
  }
  released = !made.points.empty();
  if (!released) return known;
  const uint64_t thread = warp.block().number() << 10 | warp.number() << 5 | access.lane;
  const auto [it, is_new] =
      publisher_of_thread_.try_emplace(thread, static_cast<uint32_t>(publishers_.size()));
  if (is_new) {
    publishers_.emplace_back();
    publishers_of_block_[static_cast<uint32_t>(warp.block().number())].push_back(it->second);
  }
  Publisher& publisher = publishers_[it->second];
  publisher.releases.push_back(std::move(made));
  return known.with(it->second, static_cast<uint32_t>(publisher.releases.size()));
}

bool LaunchOrder::access(BlockReleases& block, const Warp& warp, const StrongAccess& access) {
  if (access.releases) is_used_.store(true, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  auto& variables = access.is_shared ? block.shared_variables : variables_;
  const auto found = variables.find(access.address);
  Knowledge known;
  if (found != variables.end() && access.is_read) known = found->second;
  if (access.is_read && !(access.is_shared && known.is_empty())) {
    auto& read = read_of(access.acquires ? block.acquired : block.pending, warp, 1u << access.lane);
    read.knowledge = read.knowledge.joined(known);
    if (!access.is_shared &&
        std::find(read.fresh.begin(), read.fresh.end(), access.address) == read.fresh.end())
      read.fresh.push_back(access.address);
  }
  if (!access.is_write) return false;
  bool released = false;
  known = release(block, warp, access, std::move(known), released);
  if (known.is_empty()) {
    if (found != variables.end()) variables.erase(found);
  } else {
    variables[access.address] = std::move(known);
  }
  return released;
}

void LaunchOrder::plain_write(BlockReleases& block, bool is_shared, uint64_t address, uint32_t bytes) {
  if (!is_used()) return;
  const std::lock_guard lock(mutex_);
  auto& variables = is_shared ? block.shared_variables : variables_;
  if (variables.empty()) return;
  for (uint64_t at = address; at < address + bytes; ++at) variables.erase(at);
}

bool LaunchOrder::is_before(BlockReleases& block, const Warp& warp, LaneMask now, const Epoch& epoch,
                            LaneMask before) {
  refresh(block.acquired);
  const std::lock_guard lock(mutex_);
  const auto found = publishers_of_block_.find(epoch.block);
  if (found == publishers_of_block_.end()) return false;
  for (LaneMask left = now; left != 0; left &= left - 1) {
    const Knowledge known = visible_knowledge(block.acquired, warp, left & (~left + 1));
    const bool is_known = std::any_of(found->second.begin(), found->second.end(), [&](uint32_t number) {
      const auto& releases = publishers_[number].releases;
      const bool same_block = epoch.block == static_cast<uint32_t>(warp.block().number());
      for (uint32_t i = known.of(number); i-- > 0;)
        for (const auto& [point, is_wide] : releases[i].points)
          if ((is_wide || same_block) && point.is_after(epoch, before)) return true;
      return false;
    });
    if (!is_known) return false;
  }
  return true;
}

void LaunchOrder::clear() {
  if (!is_used()) return;
  is_used_.store(false, std::memory_order_relaxed);
  variables_.clear();
  publishers_.clear();
  publisher_of_thread_.clear();
  publishers_of_block_.clear();
}

}  // namespace tessera::cuda_sim
