#include "dist/comm/remote/exchange.h"

#include <algorithm>
#include <cstring>

namespace tessera::dist::remote {
namespace {

/// Chunks in flight from one rank to another in one call, in each direction.
constexpr int64_t chunks_in_flight = 4;

bool fits_in_frame(int64_t bytes) {
  return bytes <= Frame::most_payload;
}

}  // namespace

void send_frame(Wire& wire, int to, const Frame& frame, const void* payload, Wire::Done done) {
  const std::shared_ptr<char[]> bytes(new char[static_cast<size_t>(frame.size())]);
  std::memcpy(bytes.get(), &frame, sizeof(Frame));
  if (frame.payload_bytes > 0)
    std::memcpy(bytes.get() + sizeof(Frame), payload, static_cast<size_t>(frame.payload_bytes));
  wire.send(bytes.get(), frame.size(), to, frame_tag,
            [bytes, done = std::move(done)](int from, int64_t count) {
              if (done) done(from, count);
            });
}

Exchange::Exchange(std::string group_name, const FrameKey& frame_key, CallHeader call,
                   std::shared_ptr<WaitWord> event)
    : group(std::move(group_name)), key(frame_key), header(std::move(call)), event_(std::move(event)) {}

void Exchange::start(Wire& wire, int& next_data_tag) {
  for (Peer& peer : peers) {
    if (!headers_only && !fits_in_frame(peer.send_bytes)) {
      peer.data_tag_out = next_data_tag;
      next_data_tag = next_data_tag == wire.highest_tag() ? first_data_tag : next_data_tag + 1;
    }
    send_frame(wire, peer);
  }
  update();
}

void Exchange::send_frame(Wire& wire, Peer& peer) {
  Frame frame;
  frame.key = key;
  frame.data_tag = peer.data_tag_out;
  frame.header = encode(header);
  frame.send_bytes = peer.send_bytes;
  frame.receive_bytes = peer.receive_bytes;
  if (headers_only || fits_in_frame(peer.send_bytes)) {
    frame.payload_bytes = headers_only ? 0 : static_cast<int32_t>(peer.send_bytes);
    peer.sent = peer.send_posted = peer.send_bytes;  // copied out before this returns
  }
  ++frames_leaving_;
  ++in_flight_;
  remote::send_frame(wire, peer.rank, frame, peer.send, [self = shared_from_this()](int, int64_t) {
    --self->frames_leaving_;
    --self->in_flight_;
    self->update();
  });
}

bool Exchange::compare(int own, int from, const Peer* peer, const Frame& frame) {
  const CallHeader other = decode(frame.header);
  const int64_t width = size_of(header.dtype);
  const auto differ_in = [&](int64_t has, int sender, int64_t expects, int receiver) {
    mismatch_ = count_mismatch_text(group, header, sender, has / width, receiver, expects / width);
    return false;
  };
  if (!peer || !is_same_call(header, other)) {
    mismatch_ = mismatch_text(group, own, header, from, other);
    return false;
  }
  if (frame.send_bytes != peer->receive_bytes)
    return differ_in(frame.send_bytes, from, peer->receive_bytes, own);
  if (frame.receive_bytes != peer->send_bytes)
    return differ_in(peer->send_bytes, own, frame.receive_bytes, from);
  return true;
}

void Exchange::receive_frame(Wire& wire, int from, const Frame& frame) {
  const auto place = std::find_if(peers.begin(), peers.end(), [&](const Peer& p) { return p.rank == from; });
  Peer* const peer = place == peers.end() ? nullptr : &*place;
  if (abandoned_ || (peer && peer->agreed)) return;
  if (compare(wire.rank(), from, peer, frame)) {
    peer->agreed = true;
    peer->data_tag_in = frame.data_tag;
    if (headers_only || fits_in_frame(peer->receive_bytes)) {
      if (!headers_only && peer->receive_bytes > 0)
        std::memcpy(peer->receive, frame.payload(), static_cast<size_t>(peer->receive_bytes));
      peer->received = peer->receive_posted = peer->receive_bytes;
    }
    receive_chunks(wire, *peer);
    send_chunks(wire, *peer);
  }
  update();
}

void Exchange::send_chunks(Wire& wire, Peer& peer) {
  while (!abandoned_ && peer.send_posted < peer.send_bytes &&
         peer.send_posted - peer.sent < chunks_in_flight * Wire::most_bytes) {
    const int64_t chunk = std::min(peer.send_bytes - peer.send_posted, Wire::most_bytes);
    const char* const bytes = peer.send + peer.send_posted;
    peer.send_posted += chunk;
    ++in_flight_;
    wire.send(bytes, chunk, peer.rank, peer.data_tag_out,
              [self = shared_from_this(), &wire, &peer, chunk](int, int64_t) {
                --self->in_flight_;
                peer.sent += chunk;
                self->send_chunks(wire, peer);
                self->update();
              });
  }
}

void Exchange::receive_chunks(Wire& wire, Peer& peer) {
  while (!abandoned_ && peer.receive_posted < peer.receive_bytes &&
         peer.receive_posted - peer.received < chunks_in_flight * Wire::most_bytes) {
    const int64_t chunk = std::min(peer.receive_bytes - peer.receive_posted, Wire::most_bytes);
    char* const bytes = peer.receive + peer.receive_posted;
    peer.receive_posted += chunk;
    ++in_flight_;
    wire.receive(bytes, chunk, peer.rank, peer.data_tag_in,
                 [self = shared_from_this(), &wire, &peer, chunk](int, int64_t) {
                   --self->in_flight_;
                   peer.received += chunk;
                   self->receive_chunks(wire, peer);
                   self->update();
                 });
  }
}

void Exchange::update() {
  const auto incomplete =
      std::find_if(peers.begin(), peers.end(), [](const Peer& p) { return !p.complete(); });
  missing_.store(incomplete == peers.end() ? -1 : incomplete->rank, std::memory_order_relaxed);
  const bool received = incomplete == peers.end();
  const bool sent = frames_leaving_ == 0 && std::all_of(peers.begin(), peers.end(),
                                                        [](const Peer& p) { return p.sent == p.send_bytes; });
  if (received == this->received() && !(received && sent)) return;
  received_.store(received, std::memory_order_release);
  over_.store(received && sent, std::memory_order_release);
  event_->signal();
}

}  // namespace tessera::dist::remote
