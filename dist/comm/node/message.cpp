#include "dist/comm/node/message.h"

#include <algorithm>

#include "dist/comm/interface/fault_injection.h"
#include "tensor/cpu/combine_sources.h"

namespace tessera::dist::node {

Send::Send(std::shared_ptr<Group> group, CheckedCall call)
    : ActiveCall(group->self().progress(), call.header), group_(std::move(group)), call_(std::move(call)) {}

/// Messages of one tag are posted in order, whether they wait for a place in the send queue or a staging
/// buffer.
bool Send::post() {
  uint64_t& posted_before = group_->posted_messages(call_.peer, call_.tag);
  if (posted_before != header().sequence) return false;
  SendQueue& send_queue = group_->send_queue(group_->rank());
  const auto free =
      std::find_if(std::begin(send_queue.posted), std::end(send_queue.posted),
                   [](const auto& posted) { return posted.load(std::memory_order_relaxed) == 0; });
  if (free == std::end(send_queue.posted)) return false;
  queue_index_ = static_cast<int>(free - std::begin(send_queue.posted));
  Message& message = send_queue.messages[queue_index_];
  if (!place_input(message)) return false;
  ++posted_before;
  number_ = group_->next_message();
  message.call.header = encode(header());
  message.call.source = source_;
  message.tag = call_.tag;
  message.ready.store(mark(number_, 1), std::memory_order_relaxed);
  ready_ = 1;
  free->store(number_ << 16 | static_cast<uint64_t>(call_.peer), std::memory_order_release);
  group_->signal(call_.peer);
  return true;
}

/// As Call::place_input.
bool Send::place_input(Message& message) {
  if (call_.headers_only) {
    source_ = Source::in_slot;
    return true;
  }
  const int64_t nbytes = call_.input.nbytes();
  if (!group_->place(call_.input, std::min(nbytes, staging_bytes), message.call, message.bytes, staging_))
    return false;
  source_ = message.call.source;
  if (source_ != Source::staged) return true;
  chunks_ = (nbytes + staging_bytes - 1) / staging_bytes;
  fill_staging_buffer();
  return true;
}

void Send::fill_staging_buffer() {
  const int64_t first = ready_ * staging_bytes;
  kernels::cpu::copy_bytes(staging_.get(), static_cast<const char*>(call_.input.raw_data()) + first,
                           std::min(staging_bytes, call_.input.nbytes() - first));
}

bool Send::advance() {
  if (number_ == 0 && !post()) return false;
  if (taken_) return true;
  SendQueue& send_queue = group_->send_queue(group_->rank());
  Message& message = send_queue.messages[queue_index_];
  const uint64_t taken = message.taken.load(std::memory_order_acquire);
  if (taken >= mark(number_, static_cast<uint64_t>(chunks_))) {
    send_queue.posted[queue_index_].store(0, std::memory_order_relaxed);
    staging_.reset();  // the handle may outlive the message
    call_.input = Tensor();
    return taken_ = true;
  }
  if (taken >= mark(number_, static_cast<uint64_t>(ready_))) {
    fill_staging_buffer();
    message.ready.store(mark(number_, static_cast<uint64_t>(++ready_)), std::memory_order_release);
    group_->signal(call_.peer);
  }
  return false;
}

Recv::Recv(std::shared_ptr<Group> group, CheckedCall call)
    : ActiveCall(group->self().progress(), call.header), group_(std::move(group)), call_(std::move(call)) {}

/// The oldest message that this receive may take. One search is not enough: while it goes on, the sender may
/// post a message in a place that was passed and a later one further on. What was posted before a message
/// that was found is visible to a search that begins after.
Message* Recv::find() {
  return search() ? search() : nullptr;
}

Message* Recv::search() {
  SendQueue& send_queue = group_->send_queue(call_.peer);
  Message* found = nullptr;
  for (int i = 0; i < messages_in_flight; ++i) {
    if (i == 1) run_comm_hook(CommPoint::search, header());
    const uint64_t posted = send_queue.posted[i].load(std::memory_order_acquire);
    const uint64_t number = posted >> 16;
    if (posted == 0 || static_cast<int>(posted & 0xffff) != group_->rank()) continue;
    // A message to this rank is not changed until this rank has taken it.
    Message& message = send_queue.messages[i];
    if (message.taken.load(std::memory_order_relaxed) >= mark(number, 0) || message.tag != call_.tag)
      continue;
    if (found && number > number_) continue;
    found = &message;
    number_ = number;
  }
  return found;
}

bool Recv::advance() {
  if (taken_) return true;
  if (!message_) {
    // Receives of one tag take their messages in order: an earlier one may have looked before the message
    // came.
    uint64_t& found_before = group_->found_messages(call_.peer, call_.tag);
    if (found_before != header().sequence) return false;
    message_ = find();
    if (!message_) return false;
    ++found_before;
    group_->compare(header(), call_.peer, message_->call.header);
    run_comm_hook(CommPoint::work, header());
    message_->taken.store(mark(number_, 0), std::memory_order_relaxed);  // later receives pass over it
  }
  return taken_ = take_chunks();
}

bool Recv::take_chunks() {
  if (call_.headers_only) {
    message_->taken.store(mark(number_, 1), std::memory_order_release);
    group_->signal(call_.peer);
    return true;
  }
  const PostedCall& posted = message_->call;
  const bool is_staged = posted.source == Source::staged;
  const char* const source = posted.source == Source::in_slot
                                 ? message_->bytes
                                 : group_->shared().at(group_->member(call_.peer), posted.data);
  const int64_t nbytes = call_.output.nbytes(), length = is_staged ? staging_bytes : nbytes;
  do {
    if (message_->ready.load(std::memory_order_acquire) < mark(number_, static_cast<uint64_t>(chunk_) + 1))
      return false;
    const int64_t first = chunk_ * length;
    kernels::cpu::copy_bytes(static_cast<char*>(call_.output.raw_data()) + first, source,
                             std::min(length, nbytes - first));
    message_->taken.store(mark(number_, static_cast<uint64_t>(++chunk_)), std::memory_order_release);
    group_->signal(call_.peer);
  } while (chunk_ * length < nbytes);
  return true;
}

}  // namespace tessera::dist::node
