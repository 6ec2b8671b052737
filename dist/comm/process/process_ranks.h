#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dist/comm/interface/communicator.h"
#include "dist/comm/node/rank.h"
#include "dist/comm/process/shared_arena.h"

namespace tessera::dist {

/// An all_gather between the processes of one machine, for the time before there are communicators.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  /// This process's index among those of the machine, and their number.
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The bytes of all processes, in order; equally many from each. Waits for all.
  virtual std::string all_gather(const std::string& bytes) = 0;
};

/// The shared memory of the processes of one machine; or the reason why there is none.
struct JoinedProcesses {
  std::shared_ptr<node::NodeShared> shared;  ///< null: not joined
  std::string obstacle;                      ///< the reason then
};

/// Maps the arenas of all processes into each; an arena lives as long as one of the processes. Called by all
/// processes, with a null arena where there is none; all join or none does. `world_ranks` are the processes'
/// ranks in the world.
JoinedProcesses join_processes(std::shared_ptr<SharedArena> arena, Bootstrap& bootstrap,
                               std::vector<int> world_ranks);

/// The communicator of all ranks of the machine, as `self` sees it. Called by all processes.
std::shared_ptr<Communicator> make_node_communicator(std::shared_ptr<node::NodeRank> self,
                                                     Bootstrap& bootstrap, const std::string& name,
                                                     std::shared_ptr<Ledger> ledger);

}  // namespace tessera::dist
