#pragma once  // internal

#include <cstdint>
#include <string>

#include "dist/comm/process/process_place.h"
#include "dist/comm/wait/posted_header.h"
#include "dist/comm/wait/rank_activity.h"
#include "dist/comm/wait/run_failure.h"

/// Frames, which the remote threads of a job send each other beside data: a header and a short payload.
namespace tessera::dist::remote {

/// The call that a frame belongs to. All ranks of a group give the same call the same key.
struct FrameKey {
  uint64_t group = 0;     ///< `group_id`
  uint64_t sequence = 0;  ///< of the group's collectives, or of the messages from one rank to another by tag
  int64_t channel = 0;    ///< of a collective its phase; of a message the pair of ranks
  int64_t tag = 0;        ///< of a message
  auto operator<=>(const FrameKey&) const = default;
};

/// A number that is different for any two groups with a rank in common: the launch (one process may launch
/// several times), the group's first rank, and the number of groups that this rank has opened.
constexpr uint64_t group_id(uint64_t launch, int first_rank, uint64_t opened) {
  return launch << 44 | static_cast<uint64_t>(first_rank) << 24 | opened;
}
constexpr uint64_t launch_of(uint64_t group) {
  return group >> 44;
}

/// A frame as it is sent, followed by `payload_bytes`.
struct Frame {
  enum class Type : uint32_t {
    call,       ///< the sender's call, and its bytes where they are few
    heartbeat,  ///< the payload is a text: what the sender waits for
    abort,      ///< an abort message: the sender failed; the payload is a PostedFailure
    leave,      ///< the sender's program ends: it sends nothing more
  };
  static constexpr int most_payload = 8192;

  Type type = Type::call;
  int32_t data_tag = 0;  ///< the tag of the bytes, where they are not the payload
  FrameKey key;
  // Of a call: its header, and the bytes that go to the receiver and are expected from it.
  PostedHeader header;
  int64_t send_bytes = 0, receive_bytes = 0;
  // Of a heartbeat: where the sender runs, its calls begun and waited for, the rank that it waits for (-1:
  // none), and what it does.
  ProcessPlace process;
  uint64_t operations = 0;
  int32_t waits_for = -1;
  int32_t payload_bytes = 0;
  ActivityText activity{};  // PublishesActivity

  /// Bytes of the frame with its payload.
  int64_t size() const { return int64_t{sizeof(Frame)} + payload_bytes; }
  /// The payload of a frame that was received.
  const char* payload() const { return reinterpret_cast<const char*>(this) + sizeof(Frame); }
  std::string payload_text() const { return {payload(), static_cast<size_t>(payload_bytes)}; }
};
static_assert(sizeof(PostedFailure) <= Frame::most_payload);

/// The failure in an abort message. Throws CommunicationError where there is none.
RunFailure failure_in(const Frame& frame);

/// The frame in `count` bytes that came from rank `from`. Throws CommunicationError where they are none.
const Frame& frame_in(const char* bytes, int64_t count, int from);

}  // namespace tessera::dist::remote
