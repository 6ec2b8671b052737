#include "dist/comm/node/communicator.h"

#include "dist/comm/node/call.h"
#include "dist/comm/node/message.h"

namespace tessera::dist::node {
namespace {

// A token holds the index of the rank that owns the memory, and a reference into that memory.
constexpr int reference_bits = 48;

std::vector<int> world_ranks(const SharedMemory& shared, const std::vector<int>& members) {
  std::vector<int> ranks;
  for (const int member : members) ranks.push_back(shared.world_rank(member));
  return ranks;
}

char* control_of(const SharedMemory& shared, int64_t token) {
  const auto bits = static_cast<uint64_t>(token);
  return shared.at(static_cast<int>(bits >> reference_bits), bits & ((uint64_t{1} << reference_bits) - 1));
}

}  // namespace

int64_t open_group_memory(Rank& self, int size) {
  const void* control = self.shared().allocate_control(Group::control_bytes(size));
  return static_cast<int64_t>(self.shared().reference(control) | static_cast<uint64_t>(self.index())
                                                                     << reference_bits);
}

Communicator::Communicator(std::shared_ptr<Rank> self, std::string name, std::vector<int> members, int rank,
                           int64_t token, std::shared_ptr<Ledger> ledger)
    : dist::Communicator(name, rank, world_ranks(self->shared(), members), std::move(ledger)),
      self_(self),
      group_(std::make_shared<Group>(*self, std::move(name), std::move(members), rank,
                                     control_of(self->shared(), token))) {}

intrusive_ptr<Storage> Communicator::make_storage(int64_t bytes, Storage::Initial initial) {
  const std::shared_ptr<MemorySource> source = self_->shared().memory_source();
  return source ? Storage::allocate(bytes, source, initial) : Storage::allocate(bytes, cpu(), initial);
}

void Communicator::publish_activity(std::string_view what) {
  self_->publish_activity(what);
}

void Communicator::poll() {
  self_->progress().poll_at_work();
}

std::shared_ptr<PendingCall> Communicator::start(Call call) {
  std::shared_ptr<ActiveCall> active;
  if (call.header.kind == CallKind::send)
    active = std::make_shared<Send>(group_, std::move(call));
  else if (call.header.kind == CallKind::recv)
    active = std::make_shared<Recv>(group_, std::move(call));
  else
    active = std::make_shared<node::Call>(group_, std::move(call));
  self_->progress().add(active);
  return active;
}

int64_t Communicator::open_group(std::span<const int> ranks) {
  return open_group_memory(*self_, static_cast<int>(ranks.size()));
}

std::shared_ptr<dist::Communicator> Communicator::join_group(const std::string& name,
                                                             std::span<const int> ranks, int index,
                                                             int64_t token) {
  std::vector<int> members;
  for (const int rank : ranks) members.push_back(group_->member(rank));
  return std::make_shared<Communicator>(self_, name, std::move(members), index, token, shared_ledger());
}

}  // namespace tessera::dist::node
