#pragma once

#include <atomic>
#include <cstdint>

#include "dist/comm/wait/bell.h"

/// What the ranks of one machine write for each other to read. All of it may lie in memory that processes
/// share: no pointers, no owners, atomics without locks. Whoever writes owns a cache line of its own.
namespace tessera::dist::node {

/// The first failure of the run.
struct FailureRecord {
  enum Kind : uint32_t { none, being_written, mismatch, lost, failed };
  std::atomic<uint32_t> kind{none};
  int32_t rank = 0;  ///< in the world
  char message[2040] = {};
};

/// What a rank shows of itself.
struct RankBlock {
  Bell bell;
  alignas(64) std::atomic<uint64_t> operations{0};  ///< begun and waited for
  std::atomic<uint64_t> heartbeat{0};               ///< a sign of life of its process, where that has one
  std::atomic<int32_t> waits_for{-1};               ///< rank in the world; -1: none
  std::atomic<uint32_t> has_left{0};
};

/// How far a rank has come with the call in a slot, as (sequence + 1) * 2^20 + pieces. Only grows, so that a
/// peer can tell what it waits for from what was there before and what came after.
struct alignas(64) Marks {
  std::atomic<uint64_t> posted{0};    ///< header and the first `pieces + 1` pieces of the input are there
  std::atomic<uint64_t> reduced{0};   ///< this rank's slice of `pieces` pieces is
  std::atomic<uint64_t> finished{0};  ///< this rank has read all it needs of `pieces` pieces
};
constexpr uint64_t mark(uint64_t sequence, uint64_t pieces) {
  return ((sequence + 1) << 20) + pieces;
}

/// Where the bytes of an input are.
enum class Source : uint8_t { none, in_slot, direct, staged };

/// A CallHeader without owners.
struct PostedHeader {
  uint64_t sequence = 0;
  int64_t bytes = 0;
  uint64_t data = 0;  ///< a reference to the input, as NodeShared has them
  int32_t root = 0;
  uint8_t kind = 0, reduction = 0, dtype = 0;
  Source source = Source::none;
  char unit[96] = {};  ///< its last characters
};
static_assert(sizeof(PostedHeader) == 128);

/// Bytes of an input that travel with the header: nobody has to wait until they are read.
inline constexpr int64_t in_slot_bytes = 512;
/// Calls of a group that a rank can have in flight; later ones queue in its own memory.
inline constexpr int slots_in_flight = 64;
/// Messages that a rank can have on their way in a group; likewise.
inline constexpr int messages_in_flight = 64;

/// Bytes of a stage: what an input that others do not see is cut into.
inline constexpr int64_t stage_bytes = int64_t{1} << 20;

/// A call as one rank posts it. The inputs' counts, one for each rank, follow it.
struct Slot {
  Marks marks;
  PostedHeader header;
  alignas(64) char bytes[in_slot_bytes];
};

/// A message on its way, cut into pieces where the others do not see it. `taken` is set by the receiver, the
/// rest by the sender.
struct Message {
  alignas(64) std::atomic<uint64_t> taken{0};  ///< mark(its number, pieces that were read)
  alignas(64) std::atomic<uint64_t> ready{0};  ///< mark(its number, pieces that are there)
  PostedHeader header;
  int32_t tag = 0;
  alignas(64) char bytes[in_slot_bytes];
};

/// All that a rank has sent and nobody has taken. An entry of `posted` is number * 2^16 + receiver, numbers
/// counting from 1; 0: free.
struct Outbox {
  alignas(64) std::atomic<uint64_t> posted[messages_in_flight] = {};
  Message messages[messages_in_flight];
};

}  // namespace tessera::dist::node
