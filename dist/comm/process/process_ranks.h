#pragma once  // internal

#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "dist/comm/interface/communicator.h"
#include "dist/comm/node/rank.h"
#include "dist/comm/process/shared_arena.h"

namespace tessera::dist {

/// An all_gather between processes, for the time before there are communicators.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  /// This process's index among them, and their number.
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The bytes of all processes, in order; equally many from each. Waits for all.
  virtual std::string all_gather(const std::string& bytes) = 0;
};

/// The records of all processes, in order.
template <class T>
std::vector<T> gather_records(Bootstrap& bootstrap, const T& own) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::string all = bootstrap.all_gather(std::string(reinterpret_cast<const char*>(&own), sizeof own));
  std::vector<T> records(static_cast<size_t>(bootstrap.size()), own);
  require<CommunicationError>(all.size() == records.size() * sizeof own, "expected records of ", sizeof own,
                              " bytes from ", records.size(), " processes, got ", all.size(), " bytes");
  std::memcpy(static_cast<void*>(records.data()), all.data(), all.size());
  return records;
}

/// The shared memory of the processes of one machine; or the reason why there is none.
struct JoinedProcesses {
  std::shared_ptr<node::SharedMemory> shared;  ///< null: not joined
  std::string no_shared_memory_reason;         ///< the reason then
};

/// Maps the arenas of all processes into each; an arena lives as long as one of the processes. Called by all
/// processes, with a null arena where there is none; all join or none does. `world_ranks` are the processes'
/// ranks in the world.
JoinedProcesses join_processes(std::shared_ptr<SharedArena> arena, Bootstrap& bootstrap,
                               std::vector<int> world_ranks);

/// The communicator of all ranks of the machine, as `self` sees it. Called by all processes.
std::shared_ptr<Communicator> make_node_communicator(std::shared_ptr<node::Rank> self, Bootstrap& bootstrap,
                                                     const std::string& name, std::shared_ptr<Ledger> ledger);

}  // namespace tessera::dist
