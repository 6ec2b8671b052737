#include "dist/comm/remote/communicator.h"

#include <algorithm>

#include "dist/comm/node/communicator.h"

namespace tessera::dist::remote {
namespace {

/// The rank among those of its machine; it keeps `self`.
std::shared_ptr<node::Rank> node_of(const std::shared_ptr<Rank>& self) {
  return {self, self->node()};
}

}  // namespace

Communicator::Communicator(std::shared_ptr<Rank> self, std::string name, std::vector<int> members, int rank,
                           uint64_t group, std::shared_ptr<Ledger> ledger)
    : dist::Communicator(name, rank, members, std::move(ledger)),
      self_(std::move(self)),
      group_{.self = self_.get(),
             .name = std::move(name),
             .id = group,
             .rank = rank,
             .members = std::move(members)} {}

void Communicator::publish_activity(std::string_view what) {
  self_->publish_activity(what);
}

void Communicator::poll() {
  self_->progress().poll_at_work();
}

std::shared_ptr<PendingCall> Communicator::start(Call call) {
  const auto active = std::make_shared<remote::Call>(group_, std::move(call));
  self_->progress().add(active);
  return active;
}

bool Communicator::shares_memory(std::span<const int> ranks) const {
  const std::vector<int>& local = self_->local_ranks();
  return self_->node() && std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
           return std::binary_search(local.begin(), local.end(), group_.members[static_cast<size_t>(rank)]);
         });
}

int64_t Communicator::open_group(std::span<const int> ranks) {
  if (shares_memory(ranks)) return node::open_group_memory(*self_->node(), static_cast<int>(ranks.size()));
  return static_cast<int64_t>(self_->open_group());
}

std::shared_ptr<dist::Communicator> Communicator::join_group(const std::string& name,
                                                             std::span<const int> ranks, int index,
                                                             int64_t token) {
  std::vector<int> members;
  for (const int rank : ranks) members.push_back(group_.members[static_cast<size_t>(rank)]);
  if (!shares_memory(ranks))
    return std::make_shared<Communicator>(self_, name, std::move(members), index,
                                          static_cast<uint64_t>(token), shared_ledger());
  const std::vector<int>& local = self_->local_ranks();
  for (int& member : members)
    member = static_cast<int>(std::lower_bound(local.begin(), local.end(), member) - local.begin());
  return std::make_shared<node::Communicator>(node_of(self_), name, std::move(members), index, token,
                                              shared_ledger());
}

std::shared_ptr<dist::Communicator> make_process_world(std::shared_ptr<Rank> self) {
  auto ledger = std::make_shared<Ledger>();
  if (self->node() && std::ssize(self->local_ranks()) == self->size()) {
    RankBootstrap bootstrap(*self, self->local_ranks());
    return make_node_communicator(node_of(self), bootstrap, "world", std::move(ledger));
  }
  std::vector<int> all_ranks = node::rank_indices(self->size());
  const int rank = self->rank();
  const uint64_t group = self->world_group();
  return std::make_shared<Communicator>(std::move(self), "world", std::move(all_ranks), rank, group,
                                        std::move(ledger));
}

}  // namespace tessera::dist::remote
