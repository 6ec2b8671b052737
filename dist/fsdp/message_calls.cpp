#include "dist/fsdp/message_calls.h"

#include <algorithm>

#include "tensor/ops/elementwise/cast.h"

namespace tessera::dist {
namespace {

/// Elements first, ..., first + numel - 1 of each shard of an array.
Tensor part_of_shards(const Tensor& all, int ranks, int64_t first, int64_t numel) {
  const int64_t shard = all.numel() / ranks;
  return numel == shard ? all : all.view({ranks, shard}).narrow(1, first, numel);
}

}  // namespace

void MessageCalls::wait() {
  for (Work& call : calls_) call.wait();
  calls_.clear();
}

bool MessageCalls::is_done() const {
  return std::all_of(calls_.begin(), calls_.end(), [](const Work& call) { return call.is_done(); });
}

void MessageCalls::wait_output() const {
  for (const Work& call : calls_) call.wait_output();
}

Gather::Gather(Communicator& group, const Tensor& all, const Tensor& own, GatherWay way,
               const CallOptions& call)
    : group_(&group),
      all_(all),
      own_(own),
      way_(way),
      call_(call),
      end_(way.broadcasts ? all.numel() : own.numel()) {
  if (!way.broadcasts) return;
  const Tensor place = shard_of(all, group.rank(), group.size());
  if (place.raw_data() != own.raw_data()) ops::cast_out(own, place);
}

int64_t Gather::start(int64_t most) {
  int64_t started = 0;
  const int64_t parts = way_.broadcasts ? 1 : group_->size();  // of a message
  while (position_ < end_) {
    int64_t numel = std::min(std::min(way_.limit, most - started) / parts, end_ - position_);
    if (way_.broadcasts) numel = std::min(numel, own_.numel() - position_ % own_.numel());
    if (numel <= 0) return started;
    start_message(numel);
    started += numel * parts;
  }
  all_ = own_ = Tensor();
  return started;
}

void Gather::start_message(int64_t numel) {
  if (way_.broadcasts) {
    const auto root = static_cast<int>(position_ / own_.numel());
    calls_.add(group_->broadcast(all_.narrow(0, position_, numel), root, call_));
  } else {
    const Tensor own = numel == own_.numel() ? own_ : own_.narrow(0, position_, numel);
    calls_.add(group_->all_gather(part_of_shards(all_, group_->size(), position_, numel), own, call_));
  }
  position_ += numel;
}

Tensor shard_of(const Tensor& all, int rank, int ranks) {
  const int64_t numel = all.numel() / ranks;
  return all.narrow(0, rank * numel, numel);
}

MessageCalls start_average(Communicator& group, const Tensor& all, int64_t limit, const CallOptions& call) {
  MessageCalls calls;
  for (int64_t first = 0; first < all.numel(); first += std::min(limit, all.numel() - first))
    calls.add(
        group.all_reduce(all.narrow(0, first, std::min(limit, all.numel() - first)), Reduction::avg, call));
  return calls;
}

MessageCalls start_average_shard(Communicator& group, const Tensor& output, const Tensor& all, int64_t limit,
                                 const CallOptions& call) {
  MessageCalls calls;
  const int64_t most = limit / group.size(), shard = output.numel();
  for (int64_t first = 0; first < shard; first += std::min(most, shard - first)) {
    const int64_t numel = std::min(most, shard - first);
    calls.add(group.reduce_scatter(output.narrow(0, first, numel),
                                   part_of_shards(all, group.size(), first, numel), Reduction::avg, call));
  }
  return calls;
}

}  // namespace tessera::dist
