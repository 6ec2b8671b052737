#pragma once  // internal

#include <memory>
#include <string>
#include <vector>

#include "dist/comm/interface/communicator.h"
#include "dist/comm/node/group.h"

namespace tessera::dist::node {

/// A group whose ranks are all on one machine and read each other's memory.
class Communicator final : public dist::Communicator, public PublishesActivity {
 public:
  /// `members` are indices of ranks on this machine; `token` comes from `open_group_memory`.
  Communicator(std::shared_ptr<Rank> self, std::string name, std::vector<int> members, int rank,
               int64_t token, std::shared_ptr<Ledger> ledger);

  void poll() override;
  void publish_activity(std::string_view what) override;

 protected:
  std::shared_ptr<PendingCall> start(Call call) override;
  intrusive_ptr<Storage> make_storage(int64_t bytes, Storage::Initial initial) override;
  int64_t open_group(std::span<const int> ranks) override;
  std::shared_ptr<dist::Communicator> join_group(const std::string& name, std::span<const int> ranks,
                                                 int index, int64_t token) override;

 private:
  std::shared_ptr<Rank> self_;
  std::shared_ptr<Group> group_;
};

/// Allocates control memory for a group of `size` ranks of this machine, out of `self`'s memory. Returns the
/// token by which the ranks find it.
int64_t open_group_memory(Rank& self, int size);

}  // namespace tessera::dist::node
