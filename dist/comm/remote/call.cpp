#include "dist/comm/remote/call.h"

#include "dist/comm/interface/fault_injection.h"
#include "dist/comm/wait/reduce.h"
#include "tensor/memory/account.h"

namespace tessera::dist::remote {

Call::Call(const Group& group, CheckedCall call)
    : ActiveCall(group.self->progress(), call.header),
      thread_(&group.self->thread()),
      event_(group.self->event()),
      name_(group.name),
      group_(group.id),
      rank_(group.rank),
      members_(group.members),
      call_(std::move(call)),
      plan_(plan_of(call_, rank_, static_cast<int>(members_.size()), Frame::most_payload)) {
  if (call_.headers_only || plan_.phases.empty())
    exchange_headers();
  else
    begin_phase();
  call_.input_counts = call_.output_counts = {};
  plan_.input.counts = plan_.output.counts = {};
}

Call::~Call() {
  if (!exchange_->over()) thread_->abandon(exchange_);
}

std::shared_ptr<Exchange> Call::make_exchange() const {
  FrameKey key{.group = group_, .sequence = header().sequence, .channel = phase_, .tag = 0};
  if (is_message(header().kind)) {
    // After the phases of collectives.
    key.channel = 2 + plan_.sender * std::ssize(members_) + plan_.receiver;
    key.tag = call_.tag;
  }
  const auto exchange = std::make_shared<Exchange>(name_, key, header(), event_);
  if (call_.input.defined()) exchange->keep.push_back(call_.input);
  if (call_.output.defined()) exchange->keep.push_back(call_.output);
  return exchange;
}

void Call::add_peer(int rank, const ElementRange& sent, char* receive, int64_t receive_count) {
  const int64_t width = size_of(header().dtype);
  exchange_->peers.push_back({.rank = members_[static_cast<size_t>(rank)],
                              .send = sent.count > 0 && !call_.headers_only ? source_at(sent.first) : nullptr,
                              .send_bytes = sent.count * width,
                              .receive = receive,
                              .receive_bytes = receive_count * width});
}

char* Call::output_at(int64_t element) const {
  return static_cast<char*>(call_.output.raw_data()) + element * size_of(header().dtype);
}

/// In the tensor that this phase sends.
const char* Call::source_at(int64_t element) const {
  const Tensor& source = phase_ == 0 ? call_.input : call_.output;
  return static_cast<const char*>(source.raw_data()) + element * size_of(header().dtype);
}

/// Exchanges the headers with all ranks, and the counts of an all_to_all; no bytes.
void Call::exchange_headers() {
  exchange_ = make_exchange();
  exchange_->headers_only = true;
  const bool has_counts = header().kind == CallKind::all_to_all;
  for (int r = 0; r < std::ssize(members_); ++r) {
    if (r == rank_ || (is_message(header().kind) && r != call_.peer)) continue;
    if (has_counts)
      add_peer(r, plan_.sent(0, r), nullptr, plan_.received(0, r).count);
    else
      add_peer(r, {}, nullptr, 0);
  }
  plan_.phases = {};  // another transport executes them
  thread_->post(exchange_);
}

/// Starts the sends and receives of a phase. A second phase writes into ranges that the first one sent: it
/// begins once these have left.
void Call::begin_phase() {
  exchange_ = make_exchange();
  const bool combines = plan_.phases[static_cast<size_t>(phase_)].combines;
  if (combines)
    allocate_received();
  else
    place_own();
  char* next = combines ? static_cast<char*>(received_ranges_.raw_data()) : nullptr;
  for (int r = 0; r < std::ssize(members_); ++r) {
    if (r == rank_ || !(plan_.sends_to(r) || plan_.receives_from(r))) continue;
    const ElementRange range = plan_.received(phase_, r);
    if (!combines) next = range.count > 0 ? output_at(range.first) : nullptr;
    add_peer(r, plan_.sent(phase_, r), next, range.count);
    if (combines) next += range.count * size_of(header().dtype);
  }
  thread_->post(exchange_);
}

void Call::allocate_received() {
  const CategoryScope scope(MemoryCategory::communication);
  received_ranges_ =
      Tensor::empty({std::ssize(members_) - 1, plan_.received(phase_, rank_).count}, header().dtype);
  exchange_->keep.push_back(received_ranges_);
}

/// Copies what this rank sends to itself, unless it is there.
void Call::place_own() {
  const ElementRange from = plan_.sent(phase_, rank_), to = plan_.received(phase_, rank_);
  if (from.count > 0 && output_at(to.first) != source_at(from.first))
    kernels::cpu::copy_bytes(output_at(to.first), source_at(from.first),
                             from.count * size_of(header().dtype));
}

void Call::combine() {
  run_comm_hook(CommPoint::work, header());
  const ElementRange range = plan_.received(phase_, rank_);
  std::vector<const void*> sources;
  const char* received = static_cast<const char*>(received_ranges_.raw_data());
  for (int r = 0; r < std::ssize(members_); ++r) {
    sources.push_back(r == rank_ ? source_at(plan_.sent(phase_, rank_).first) : received);
    if (r != rank_) received += range.count * size_of(header().dtype);
  }
  kernels::cpu::combine_sources(header().dtype, combination_of(header().reduction), sources,
                                output_at(range.first), range.count);
  received_ranges_ = {};
}

bool Call::advance() {
  if (!exchange_->received()) return false;
  if (received_ranges_.defined()) combine();
  if (phase_ + 1 < std::ssize(plan_.phases)) {
    if (!exchange_->over()) return false;
    ++phase_;
    begin_phase();
    return false;
  }
  if (!output_ready_) {
    output_ready_ = true;
    run_comm_hook(CommPoint::finished, header());
  }
  return exchange_->over();
}

}  // namespace tessera::dist::remote
