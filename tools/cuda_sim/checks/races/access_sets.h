// Sets of accesses, each stored once.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "tools/cuda_sim/checks/races/growing_table.h"
#include "tools/cuda_sim/checks/races/stamp.h"

namespace tessera::cuda_sim {

/// Accesses as the race check distinguishes them (PTX ISA, "Memory Consistency Model"). Strong ones
/// (volatile, relaxed, acquire, release, atomic) do not race with each other where both are in the other's
/// scope.
enum class AccessKind : uint8_t {
  plain_read,
  plain_write,
  strong_read,
  strong_write,
  block_read,   ///< strong within a block only
  block_write,  ///< the same
};
inline bool is_write(AccessKind kind) {
  return kind == AccessKind::plain_write || kind == AccessKind::strong_write ||
         kind == AccessKind::block_write;
}
inline bool is_plain(AccessKind kind) {
  return kind == AccessKind::plain_read || kind == AccessKind::plain_write;
}
inline bool is_block_scope(AccessKind kind) {
  return kind == AccessKind::block_read || kind == AccessKind::block_write;
}

struct SetEntry {
  Stamp stamp;
  LaneMask lanes;  ///< where the stamp cannot say which ones; 0: as the stamp says
  AccessKind kind;
  bool operator==(const SetEntry&) const = default;
  LaneMask lanes_at(uint64_t address) const { return lanes != 0 ? lanes : stamp.lanes(address); }
};

/// A set is another one and one entry more.
struct SetNode {
  SetEntry entry;
  uint32_t parent;
  uint8_t kinds;      ///< bit k: has an entry of AccessKind k
  uint8_t saturated;  ///< bit k: no further entry of that kind can matter
};

/// Sets, hash-consed: cells with the same history share one number. 0 is the empty set. Thread-safe but for
/// `clear`.
class AccessSets {
 public:
  AccessSets() { nodes_.make(0) = {}; }
  const SetNode& node(uint32_t set) const { return nodes_[set]; }
  /// The set `parent` and `entry`. `saturated` is stored with a new node.
  uint32_t with(uint32_t parent, const SetEntry& entry, uint8_t saturated);
  uint32_t size() const { return next_; }
  void clear();

  static constexpr uint32_t capacity = 1 << 26;

 private:
  struct Key {
    uint32_t parent = 0;
    SetEntry entry;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      uint64_t hash = (uint64_t{key.parent} << 32 | key.entry.stamp.bits) * 0x9e3779b97f4a7c15u;
      hash ^= (uint64_t{key.entry.lanes} << 3 | static_cast<uint64_t>(key.entry.kind)) * 0xc2b2ae3d27d4eb4fu;
      return hash ^ hash >> 29;
    }
  };

  GrowingTable<SetNode> nodes_;
  std::unordered_map<Key, uint32_t, Hash> numbers_;
  uint32_t next_ = 1;
  std::mutex mutex_;
};

}  // namespace tessera::cuda_sim
