#include "dist/comm/message_communicator.h"

#include <numeric>

namespace tessera::dist {

MessageCommunicator::MessageCommunicator(std::shared_ptr<MessageRank> self, std::string name,
                                         std::vector<int> members, int rank, uint64_t group,
                                         std::shared_ptr<Ledger> ledger)
    : Communicator(name, rank, members, std::move(ledger)),
      self_(std::move(self)),
      group_{.self = self_.get(),
             .name = std::move(name),
             .id = group,
             .rank = rank,
             .members = std::move(members)} {}

Tensor MessageCommunicator::empty(const Shape& shape, DType dtype) {
  return Tensor::empty(shape, dtype);
}

void MessageCommunicator::poll() {
  self_->progress().poll();
}

std::shared_ptr<PendingCall> MessageCommunicator::start(Call call) {
  const auto active = std::make_shared<MessageCall>(group_, std::move(call));
  self_->progress().add(active);
  return active;
}

int64_t MessageCommunicator::open_group(std::span<const int>) {
  return static_cast<int64_t>(self_->open_group());
}

std::shared_ptr<Communicator> MessageCommunicator::join_group(const std::string& name,
                                                              std::span<const int> ranks, int index,
                                                              int64_t token) {
  std::vector<int> in_world;
  for (const int rank : ranks) in_world.push_back(group_.members[static_cast<size_t>(rank)]);
  return std::make_shared<MessageCommunicator>(self_, name, std::move(in_world), index,
                                               static_cast<uint64_t>(token), shared_ledger());
}

std::shared_ptr<Communicator> make_message_world(std::shared_ptr<MessageRank> self) {
  std::vector<int> everybody(static_cast<size_t>(self->size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  const int rank = self->rank();
  const uint64_t group = self->world_group();
  return std::make_shared<MessageCommunicator>(std::move(self), "world", std::move(everybody), rank, group,
                                               std::make_shared<Ledger>());
}

}  // namespace tessera::dist
