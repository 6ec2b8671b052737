#pragma once  // internal

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "dist/comm/interface/call.h"
#include "dist/comm/remote/frame.h"
#include "dist/comm/remote/wire.h"
#include "tensor/tensor.h"
#include "tensor/threads/wait_word.h"

namespace tessera::dist::remote {

/// Bytes to and from each of several other ranks, as one phase of a call: a state machine. First a frame with
/// the call's header goes to each of them, with the bytes where they are few. Otherwise the bytes move to and
/// from a rank once its header has come and agrees, in chunks of at most `Wire::most_bytes`. Exchanges do not
/// wait for one another, in whatever order ranks start them.
///
/// The rank's thread fills it in and posts it (Thread::post); the remote thread alone advances it. The
/// rank then only reads its state; the rank's event is signaled at each change.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  struct Peer {
    int rank = 0;  ///< in the world
    const char* send = nullptr;
    int64_t send_bytes = 0;
    char* receive = nullptr;
    int64_t receive_bytes = 0;
    // Of the remote thread:
    int64_t send_posted = 0, sent = 0, receive_posted = 0, received = 0;
    int data_tag_out = 0, data_tag_in = 0;
    bool agreed = false;  ///< its header has come and agrees with the own one

    /// Whether all bytes from it have come.
    bool complete() const { return agreed && received == receive_bytes; }
  };

  Exchange(std::string group, const FrameKey& key, CallHeader header, std::shared_ptr<WaitWord> event);

  std::string group;  ///< its name
  FrameKey key;
  CallHeader header;
  std::vector<Peer> peers;
  std::vector<Tensor> keep;   ///< the tensors that are sent or written
  bool headers_only = false;  ///< counts are compared, but another transport moves the bytes

  /// The headers and bytes of all peers have come.
  bool received() const { return received_.load(std::memory_order_acquire); }
  /// And all own bytes have left.
  bool over() const { return over_.load(std::memory_order_acquire); }
  /// The rank that it waits for; -1: none.
  int missing() const { return missing_.load(std::memory_order_relaxed); }

  // From here on for the remote thread.
  void start(Wire& wire, int& next_data_tag);
  /// Processes another rank's frame for this call.
  void receive_frame(Wire& wire, int from, const Frame& frame);
  /// Starts no more sends and receives; those in flight keep the memory until they end.
  void abandon() { abandoned_ = true; }
  /// Whether sends or receives of it are still in flight.
  bool in_flight() const { return in_flight_ > 0; }
  /// How another rank's call differs from this one's; empty where all agree.
  const std::string& mismatch() const { return mismatch_; }

 private:
  void send_frame(Wire& wire, Peer& peer);
  void send_chunks(Wire& wire, Peer& peer);
  void receive_chunks(Wire& wire, Peer& peer);
  bool compare(int own, int from, const Peer* peer, const Frame& frame);
  void update();

  std::shared_ptr<WaitWord> event_;
  std::atomic<bool> received_{false}, over_{false};
  std::atomic<int> missing_{-1};
  std::string mismatch_;
  int frames_leaving_ = 0, in_flight_ = 0;
  bool abandoned_ = false;
};

/// Sends `frame` with its payload; calls `done`, where given, when it has left.
void send_frame(Wire& wire, int to, const Frame& frame, const void* payload, Wire::Done done = {});

/// The tag of all frames. The tags of data come after it.
inline constexpr int frame_tag = 1;
inline constexpr int first_data_tag = 2;

}  // namespace tessera::dist::remote
