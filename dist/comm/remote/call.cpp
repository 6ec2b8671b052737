#include "dist/comm/remote/call.h"

#include "dist/comm/interface/fault_injection.h"
#include "tensor/memory/account.h"

namespace tessera::dist {

RemoteCall::RemoteCall(const RemoteGroup& group, CheckedCall call)
    : ActiveCall(group.self->progress(), call.header),
      thread_(&group.self->thread()),
      event_(group.self->event()),
      name_(group.name),
      group_(group.id),
      rank_(group.rank),
      members_(group.members),
      call_(std::move(call)),
      exchange_(make_exchange(0)) {
  if (call_.headers_only)
    prepare_headers();
  else
    prepare();
  call_.input_counts = call_.output_counts = {};
  thread_->post(exchange_);
}

void RemoteCall::prepare() {
  switch (header().kind) {
    case CallKind::all_gather:
    case CallKind::split:
      prepare_gather();
      break;
    case CallKind::all_to_all:
      prepare_all_to_all();
      break;
    case CallKind::broadcast:
      prepare_broadcast();
      break;
    case CallKind::send:
    case CallKind::recv:
      prepare_message();
      break;
    case CallKind::reduce_scatter:
    case CallKind::all_reduce:
      prepare_reduction();
      break;
    case CallKind::barrier:
      prepare_headers();
  }
}

/// Exchanges the headers, and the counts of an all_to_all; no bytes.
void RemoteCall::prepare_headers() {
  exchange_->headers_only = true;
  for (int r = 0; r < std::ssize(members_); ++r) {
    if (is_message(header().kind) && r != call_.peer) continue;
    const auto count_in = [r](std::span<const int64_t> counts) {
      return counts.empty() ? 0 : counts[static_cast<size_t>(r)];
    };
    add_peer(r, nullptr, count_in(call_.input_counts), nullptr, count_in(call_.output_counts));
  }
}

RemoteCall::~RemoteCall() {
  if (!exchange_->over()) thread_->abandon(exchange_);
}

std::shared_ptr<Exchange> RemoteCall::make_exchange(int phase) const {
  FrameKey key{.group = group_, .sequence = header().sequence, .channel = phase, .tag = 0};
  if (is_message(header().kind)) {
    const bool sends = header().kind == CallKind::send;
    const int from = sends ? rank_ : call_.peer, to = sends ? call_.peer : rank_;
    key.channel = 2 + from * std::ssize(members_) + to;  // after the phases of collectives
    key.tag = call_.tag;
  }
  const auto exchange = std::make_shared<Exchange>(name_, key, header(), event_);
  if (call_.input.defined()) exchange->keep.push_back(call_.input);
  if (call_.output.defined()) exchange->keep.push_back(call_.output);
  return exchange;
}

void RemoteCall::add_peer(int rank, const char* send, int64_t send_count, char* receive,
                          int64_t receive_count) {
  if (rank == rank_) return;
  const int64_t width = size_of(header().dtype);
  exchange_->peers.push_back({.rank = members_[static_cast<size_t>(rank)],
                              .send = send,
                              .send_bytes = send_count * width,
                              .receive = receive,
                              .receive_bytes = receive_count * width});
}

char* RemoteCall::output_at(int64_t element) const {
  return static_cast<char*>(call_.output.raw_data()) + element * size_of(header().dtype);
}

const char* RemoteCall::input_at(int64_t element) const {
  return static_cast<const char*>(call_.input.raw_data()) + element * size_of(header().dtype);
}

void RemoteCall::copy_own(int64_t to, int64_t from, int64_t count) const {
  if (count > 0 && output_at(to) != input_at(from))
    kernels::cpu::copy_bytes(output_at(to), input_at(from), count * size_of(header().dtype));
}

void RemoteCall::prepare_gather() {
  const int64_t count = call_.input.numel();
  copy_own(rank_ * count, 0, count);
  for (int r = 0; r < std::ssize(members_); ++r) add_peer(r, input_at(0), count, output_at(r * count), count);
}

void RemoteCall::prepare_all_to_all() {
  int64_t to = 0, from = 0;
  for (int r = 0; r < std::ssize(members_); ++r) {
    const int64_t sent = call_.input_counts[static_cast<size_t>(r)];
    const int64_t received = call_.output_counts[static_cast<size_t>(r)];
    if (r == rank_) copy_own(to, from, sent);
    add_peer(r, input_at(from), sent, output_at(to), received);
    from += sent;
    to += received;
  }
}

void RemoteCall::prepare_broadcast() {
  const int64_t count = call_.output.numel();
  if (rank_ != header().root) return add_peer(header().root, nullptr, 0, output_at(0), count);
  for (int r = 0; r < std::ssize(members_); ++r) add_peer(r, input_at(0), count, nullptr, 0);
}

void RemoteCall::prepare_message() {
  if (header().kind == CallKind::send)
    add_peer(call_.peer, input_at(0), call_.input.numel(), nullptr, 0);
  else
    add_peer(call_.peer, nullptr, 0, output_at(0), call_.output.numel());
}

bool RemoteCall::is_small() const {
  return call_.input.nbytes() <= Frame::most_payload;
}

/// The range that `rank` sums: of a reduce_scatter its shard, of a small all_reduce the full tensor.
RemoteCall::Range RemoteCall::reduced_range(int rank) const {
  const int64_t n = call_.input.numel(), size = std::ssize(members_);
  if (header().kind == CallKind::reduce_scatter) return {.first = rank * (n / size), .count = n / size};
  if (is_small()) return {.first = 0, .count = n};
  return summed_range(n, size, rank);
}

void RemoteCall::prepare_reduction() {
  own_range_ = reduced_range(rank_);
  reduces_ = true;
  sends_sums_ = header().kind == CallKind::all_reduce && !is_small();
  {
    const CategoryScope scope(MemoryCategory::communication);
    received_ranges_ = Tensor::empty({std::ssize(members_) - 1, own_range_.count}, header().dtype);
  }
  exchange_->keep.push_back(received_ranges_);
  char* received = static_cast<char*>(received_ranges_.raw_data());
  for (int r = 0; r < std::ssize(members_); ++r) {
    if (r == rank_) continue;
    const Range range = reduced_range(r);
    add_peer(r, input_at(range.first), range.count, received, own_range_.count);
    received += own_range_.count * size_of(header().dtype);
  }
}

void RemoteCall::combine() {
  run_comm_hook(CommPoint::serve, header());
  std::vector<const void*> sources;
  const char* received = static_cast<const char*>(received_ranges_.raw_data());
  for (int r = 0; r < std::ssize(members_); ++r) {
    sources.push_back(r == rank_ ? input_at(own_range_.first) : received);
    if (r != rank_) received += own_range_.count * size_of(header().dtype);
  }
  const bool is_in_place = header().kind == CallKind::all_reduce;
  kernels::cpu::combine_sources(header().dtype, combination_of(header().reduction), sources,
                                output_at(is_in_place ? own_range_.first : 0), own_range_.count);
  received_ranges_ = {};
  reduces_ = false;
}

/// The second half of an all_reduce. It writes into the ranges that the first half sent, once they have left.
void RemoteCall::send_sums() {
  exchange_ = make_exchange(1);
  for (int r = 0; r < std::ssize(members_); ++r) {
    const Range range = reduced_range(r);
    add_peer(r, output_at(own_range_.first), own_range_.count, output_at(range.first), range.count);
  }
  sends_sums_ = false;
  thread_->post(exchange_);
}

bool RemoteCall::advance() {
  if (!exchange_->received()) return false;
  if (reduces_) combine();
  if (sends_sums_) {
    if (!exchange_->over()) return false;
    send_sums();
    return false;
  }
  if (!output_ready_) {
    output_ready_ = true;
    run_comm_hook(CommPoint::finished, header());
  }
  return exchange_->over();
}

}  // namespace tessera::dist
