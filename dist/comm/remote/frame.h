#pragma once

#include <cstdint>

#include "dist/comm/process/process_place.h"

/// What the message threads of a job say to each other beside the numbers: one small message each, of a
/// header and a short text or payload behind it.
namespace tessera::dist {

/// What may end the run of all ranks.
enum class RunFailure : uint8_t {
  exception,   ///< in one rank
  lost,        ///< a rank
  mismatched,  ///< calls
  broken       ///< the message thread of this rank itself
};

/// What a message belongs to. All ranks of a group give the same call the same key.
struct FrameKey {
  uint64_t group = 0;     ///< `group_id`
  uint64_t sequence = 0;  ///< of the group's collectives, or of the messages from one rank to another by tag
  int64_t channel = 0;    ///< of a collective its phase; of a message the pair of ranks
  int64_t tag = 0;        ///< of a message
  auto operator<=>(const FrameKey&) const = default;
};

/// A number that no two groups share which have a rank in common: the launch (one process may launch several
/// times), the group's first rank, and the number of groups that rank has opened.
constexpr uint64_t group_id(uint64_t launch, int first_rank, uint64_t opened) {
  return launch << 44 | static_cast<uint64_t>(first_rank) << 24 | opened;
}
constexpr uint64_t launch_of(uint64_t group) {
  return group >> 44;
}

/// A frame as it is sent, followed by `payload_bytes`.
struct Frame {
  enum class Type : uint32_t {
    call,      ///< what the sender is about to do, and its bytes where they are few
    beat,      ///< a heartbeat; the payload says in words what the sender waits for
    farewell,  ///< the sender failed: the payload says why
    leave,     ///< the sender's program ends: nothing more comes from it
  };
  static constexpr int most_payload = 8192;

  Type type = Type::call;
  int32_t data_tag = 0;  ///< of the messages that bring the bytes, where they are not the payload
  FrameKey key;
  // A call's header, and the bytes that go to the receiver and are expected from it.
  int64_t bytes = 0, send_bytes = 0, receive_bytes = 0;
  uint8_t kind = 0, reduction = 0, dtype = 0;
  int32_t root = 0;
  char unit[64] = {};
  // A heartbeat: where the sender runs, calls begun and waited for, and the rank that the sender waits for
  // (-1: none). A farewell: what happened, and the rank that is to blame.
  ProcessPlace process;
  uint64_t operations = 0;
  int32_t rank = -1;
  RunFailure failure = RunFailure::exception;
  int32_t payload_bytes = 0;

  char* payload() { return reinterpret_cast<char*>(this) + sizeof(Frame); }
  const char* payload() const { return reinterpret_cast<const char*>(this) + sizeof(Frame); }
};

}  // namespace tessera::dist
