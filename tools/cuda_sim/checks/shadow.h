// Shadow memory: for each cell of memory, which access wrote it and which read it last.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "tools/cuda_sim/checks/operation_order.h"
#include "tools/cuda_sim/machine/access.h"
#include "tools/cuda_sim/machine/types.h"

namespace tessera::cuda_sim {

class Warp;
class Block;
struct PendingCopy;
class ThreadOrder;
class Findings;
class LaunchOrder;
struct Instruction;

/// Shadow of a device's global memory.
///
/// A page's cells are as wide as the narrowest row of bytes that a warp accessed in it, 128 at most, so that
/// neighbours down to 1 byte that different threads write are distinguished; a page that is all alike has one
/// cell. A cell holds its last write and the reads since: exactly, as a set. Within a launch two accesses are
/// ordered by program order, by barriers of the block and of the warp, and by release and acquire at one
/// address, across blocks too; two operations by `OperationOrder`. One operation runs at a time, its blocks
/// on several threads.
class GlobalShadow {
 public:
  GlobalShadow(uint64_t begin, uint64_t bytes, Findings& findings, const OperationOrder& order);
  ~GlobalShadow();

  /// The lanes `access.lanes` access [address, address + bytes): all inside one live allocation, aligned.
  void access(Warp& warp, const Instruction& instruction, const Access& access);
  /// A fence (membar, fence.acq_rel) of the active lanes.
  void fence(Warp& warp, const Instruction& instruction, Scope scope);
  /// The order that releases give in the launch of `block`; null where its kernel has none.
  LaunchOrder* releases(Block& block);
  /// An operation that is no kernel: a copy, a fill, an access of the host. `what` names the call.
  void access_range(Operation operation, uint64_t address, uint64_t bytes, bool is_write, const char* what);
  /// The bytes are undefined from here on: allocated, freed, given to another user by an allocator.
  void forget(uint64_t address, uint64_t bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Shadow of a block's shared memory, and of copies into it that are in flight. Used by one host thread.
class SharedShadow {
 public:
  explicit SharedShadow(Findings& findings);
  ~SharedShadow();
  /// A block begins: nothing is written.
  void reset(uint32_t bytes);
  /// The block's part in the race check, of global memory too.
  ThreadOrder& order();
  /// What an access that `begins_copy` writes nothing may touch until `copies_done`.
  void access(Warp& warp, const Instruction& instruction, const Access& access);
  /// Copies by cp.async have ended, each of which counts as a write by its lane.
  void copies_done(Warp& warp, std::span<const PendingCopy> copies);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::cuda_sim
