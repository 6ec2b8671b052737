#pragma once  // internal

#include <atomic>
#include <cstdint>

#include "dist/comm/wait/peer_watch.h"
#include "dist/comm/wait/posted_header.h"
#include "dist/comm/wait/run_failure.h"
#include "tensor/threads/wait_word.h"

/// What the ranks of one machine write for each other to read. All of it may lie in memory that processes
/// share: no pointers, no owners, atomics without locks. Each writer has cache lines of its own.
namespace tessera::dist::node {

/// The first failure of the ranks. It is valid once `state` is `written`.
struct FailureRecord {
  enum State : uint32_t { none, being_written, written };
  std::atomic<uint32_t> state{none};
  PostedFailure failure;
};

/// The state of a rank that the others can read.
struct RankBlock {
  WaitWord event;
  alignas(64) std::atomic<uint64_t> operations{0};  ///< begun and waited for
  std::atomic<int32_t> waits_for{-1};               ///< rank in the world; -1: none
  std::atomic<uint32_t> has_exited{0};
  alignas(64) PostedActivity activity;

  RankReport report() const {
    return {.operations = operations.load(std::memory_order_relaxed),
            .waits_for = waits_for.load(std::memory_order_relaxed),
            .activity = activity.get()};
  }
};

/// The progress of a rank with the call in a slot, as (sequence + 1) * 2^20 + chunks. Marks only grow, so
/// that a peer can distinguish this call's marks from those of calls before and after it.
struct alignas(64) Marks {
  std::atomic<uint64_t> posted{0};    ///< header and the first `chunks + 1` chunks of the input are there
  std::atomic<uint64_t> reduced{0};   ///< this rank's range of the first `chunks` chunks is reduced
  std::atomic<uint64_t> finished{0};  ///< this rank has read all it needs of the first `chunks` chunks
};
constexpr uint64_t mark(uint64_t sequence, uint64_t chunks) {
  return ((sequence + 1) << 20) + chunks;
}

/// Where the bytes of an input are.
enum class Source : uint8_t { none, in_slot, direct, staged };

/// A call as a rank announces it: its header, and where the input is.
struct PostedCall {
  PostedHeader header;
  uint64_t data = 0;  ///< a reference (SharedMemory) to the input
  Source source = Source::none;
};
static_assert(sizeof(PostedCall) == 128);

/// Inputs of at most this number of bytes are posted with the header: no wait until they are read.
inline constexpr int64_t in_slot_bytes = 512;
/// Calls of a group that a rank can have in flight; later ones queue in its own memory.
inline constexpr int slots_in_flight = 64;
/// Messages of a group that a rank can have in flight; likewise.
inline constexpr int messages_in_flight = 64;

/// Bytes of a staging buffer: the chunks of an input that the others cannot see.
inline constexpr int64_t staging_bytes = int64_t{1} << 20;

/// A call as one rank posts it. A number for each rank follows it (Group::counts).
struct Slot {
  Marks marks;
  PostedCall call;
  alignas(64) char bytes[in_slot_bytes];
};

/// A message in flight, in chunks where the receiver cannot see the tensor. `taken` is set by the receiver,
/// the rest by the sender.
struct Message {
  alignas(64) std::atomic<uint64_t> taken{0};  ///< mark(its number, chunks that were read)
  alignas(64) std::atomic<uint64_t> ready{0};  ///< mark(its number, chunks that are there)
  PostedCall call;
  int32_t tag = 0;
  alignas(64) char bytes[in_slot_bytes];
};

/// The messages of a rank that were not received yet. An entry of `posted` is number * 2^16 + receiver, with
/// numbers from 1; 0: free.
struct SendQueue {
  alignas(64) std::atomic<uint64_t> posted[messages_in_flight] = {};
  Message messages[messages_in_flight];
};

}  // namespace tessera::dist::node
