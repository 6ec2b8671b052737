// The ranks of a communicator, and what they have called.
#pragma once

#include <nccl.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tools/cuda_sim/libraries/nccl/shared_team.h"

namespace tessera::cuda_sim::nccl {

enum class Kind : uint8_t {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter,
  send,
  receive,
};
const char* kind_name(Kind kind);

struct Team;

/// The calls of a group that one communicator has on one stream are one operation.
struct Launch {
  uint32_t operation = 0;
  bool stands = false;  ///< all before it on its stream has ended
};

/// One call of one rank.
struct Call {
  Kind kind = Kind::all_reduce;
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t reduction = ncclSum;
  int root = 0;  ///< or the peer
  Team* team = nullptr;
  int rank = 0;
  size_t index = 0;  ///< of the rank's collectives, or of its sends to or receives from the peer
  bool is_done = false;
  std::shared_ptr<Launch> launch;
  bool is_published = false;      ///< other processes see it
  std::vector<std::byte> data{};  ///< what they read

  std::string describe() const;
};

/// Where ranks are threads, the team is theirs together; where they are processes, each has one of its own.
struct Team {
  explicit Team(int ranks);
  int size;
  std::unique_ptr<SharedTeam> shared;               ///< null: the ranks are threads of this process
  std::vector<std::shared_ptr<Call>> unfinished{};  ///< of this process's rank, where it is set
  int joined = 0, left = 0;
  bool is_aborted = false;
  ncclResult_t error = ncclSuccess;
  std::string name;
  std::vector<std::vector<std::shared_ptr<Call>>> collectives;                        ///< of each rank
  std::map<std::pair<int, int>, std::vector<std::shared_ptr<Call>>> sends, receives;  ///< by (from, to)
  struct Split {
    std::vector<SharedTeam::SplitEntry> entries;
    int present = 0;
    std::map<int, std::shared_ptr<Team>> made;  ///< by colour
  };
  std::vector<std::unique_ptr<Split>> splits;
  std::vector<size_t> split_counts;  ///< of each rank
};

/// Guards all teams. An operation takes it while the runtime's lock is held; nothing calls the runtime with
/// it.
std::mutex& teams_mutex();
std::condition_variable& teams_changed();

/// The calls that must stand for `call` to be carried out, itself among them; a null one is not issued.
std::vector<Call*> partners_of(const Call& call);
/// Carries out a call of all partners, all of which stand.
void carry_out(const std::vector<Call*>& calls);

}  // namespace tessera::cuda_sim::nccl

/// A communicator: a rank's place in a team, which is null until the group ends in which it is made.
struct ncclComm {
  std::shared_ptr<tessera::cuda_sim::nccl::Team> team;
  int rank = 0, device = 0;
  bool is_aborted = false;
  bool is_thread = false;  ///< counted among the ranks of its thread
  /// What is left to do of a start that does not wait for the other ranks.
  struct Start {
    std::unique_ptr<tessera::cuda_sim::nccl::SharedTeam> joined;
    int ranks = 0;
    std::string name;
  };
  std::unique_ptr<Start> start;
};
