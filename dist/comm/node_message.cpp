#include "dist/comm/node_message.h"

#include <cstring>

#include "dist/comm/fault_injection.h"
#include "tensor/cpu/combine_sources.h"

namespace tessera::dist::node {

NodeSend::NodeSend(std::shared_ptr<NodeGroup> group, CheckedCall call)
    : ActiveCall(group->self().progress(), call.header),
      group_(std::move(group)),
      call_(std::move(call)),
      small_(call_.input.nbytes() <= in_slot_bytes) {}

bool NodeSend::post() {
  Outbox& outbox = group_->outbox(group_->rank());
  while (place_ < messages_in_flight && outbox.posted[place_].load(std::memory_order_relaxed) != 0) ++place_;
  if (place_ == messages_in_flight) {
    place_ = 0;
    return false;
  }
  Message& message = outbox.messages[place_];
  number_ = group_->next_message();
  write_header(header(), message.header);
  message.tag = call_.tag;
  message.header.source = small_ ? Source::in_slot : Source::direct;
  if (!small_)
    message.header.data = group_->shared().reference(call_.input.raw_data());
  else if (call_.input.nbytes() > 0)
    std::memcpy(message.bytes, call_.input.raw_data(), static_cast<size_t>(call_.input.nbytes()));
  outbox.posted[place_].store(number_ << 16 | static_cast<uint64_t>(call_.peer), std::memory_order_release);
  group_->ring(call_.peer);
  return true;
}

bool NodeSend::advance() {
  if (number_ == 0 && !post()) return false;
  Outbox& outbox = group_->outbox(group_->rank());
  if (taken_ || outbox.messages[place_].taken.load(std::memory_order_acquire) != number_) return taken_;
  outbox.posted[place_].store(0, std::memory_order_relaxed);
  return taken_ = true;
}

NodeRecv::NodeRecv(std::shared_ptr<NodeGroup> group, CheckedCall call)
    : ActiveCall(group->self().progress(), call.header), group_(std::move(group)), call_(std::move(call)) {}

Message* NodeRecv::find() {
  Outbox& outbox = group_->outbox(call_.peer);
  Message* found = nullptr;
  for (int i = 0; i < messages_in_flight; ++i) {
    const uint64_t posted = outbox.posted[i].load(std::memory_order_acquire);
    const uint64_t number = posted >> 16;
    if (posted == 0 || static_cast<int>(posted & 0xffff) != group_->rank()) continue;
    // A message to this rank stays as it is until this rank has taken it.
    Message& message = outbox.messages[i];
    if (message.taken.load(std::memory_order_relaxed) == number || message.tag != call_.tag) continue;
    if (found && number > number_) continue;
    found = &message;
    number_ = number;
  }
  return found;
}

bool NodeRecv::advance() {
  if (taken_) return true;
  Message* const message = find();
  if (!message) return false;
  group_->compare(header(), call_.peer, message->header, true);
  run_comm_hook(CommPoint::serve, header());
  const char* const source = message->header.source == Source::in_slot
                                 ? message->bytes
                                 : group_->shared().at(group_->member(call_.peer), message->header.data);
  kernels::cpu::copy_bytes(call_.output.raw_data(), source, call_.output.nbytes());
  message->taken.store(number_, std::memory_order_release);
  group_->ring(call_.peer);
  return taken_ = true;
}

}  // namespace tessera::dist::node
