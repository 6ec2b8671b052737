#pragma once  // internal

#include <memory>
#include <string>
#include <vector>

#include "dist/comm/remote/call.h"

namespace tessera::dist::remote {

/// A group of processes, on any machines, over the remote transport.
class Communicator final : public dist::Communicator, public PublishesActivity {
 public:
  /// `members` are ranks of the world, of which this rank is number `rank`; `group` comes from Rank.
  Communicator(std::shared_ptr<Rank> self, std::string name, std::vector<int> members, int rank,
               uint64_t group, std::shared_ptr<Ledger> ledger);

  void poll() override;
  void publish_activity(std::string_view what) override;

 protected:
  std::shared_ptr<PendingCall> start(Call call) override;
  int64_t open_group(std::span<const int> ranks) override;
  std::shared_ptr<dist::Communicator> join_group(const std::string& name, std::span<const int> ranks,
                                                 int index, int64_t token) override;

 private:
  bool shares_memory(std::span<const int> ranks) const;

  std::shared_ptr<Rank> self_;
  Group group_;
};

/// The group of all ranks of a job: through shared memory where all are on one machine and have it, else over
/// the remote transport. Groups split off a remote group use shared memory where their ranks have it.
std::shared_ptr<dist::Communicator> make_process_world(std::shared_ptr<Rank> self);

}  // namespace tessera::dist::remote
