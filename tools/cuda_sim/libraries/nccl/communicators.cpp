// Communicators: made by all ranks together, split, given up.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tools/cuda_sim/libraries/nccl/group.h"
#include "tools/cuda_sim/libraries/nccl/team.h"
#include "tools/cuda_sim/runtime/tessera_cuda_sim.h"

using namespace tessera::cuda_sim::nccl;

namespace {

constexpr char id_mark[] = "tessera cuda_sim";

struct Id {
  char mark[sizeof id_mark];
  int process;
  int number;
};
static_assert(sizeof(Id) <= sizeof(ncclUniqueId));

std::map<int, std::shared_ptr<Team>>& teams() {
  static std::map<int, std::shared_ptr<Team>> all;
  return all;
}

thread_local int communicators_of_thread = 0;

ncclComm_t make(const std::shared_ptr<Team>& team, int rank) {
  auto* comm = new ncclComm;
  comm->team = team;
  comm->rank = rank;
  cudaGetDevice(&comm->device);
  if (++communicators_of_thread == 1) tessera_cuda_sim_rank_thread(1);
  return comm;
}

void release(ncclComm_t comm) {
  if (--communicators_of_thread == 0) tessera_cuda_sim_rank_thread(0);
  delete comm;
}

/// Waits for the other ranks at the host. False: they do not come.
template <class Condition>
bool wait_for_ranks(std::unique_lock<std::mutex>& lock, const char* call, Condition condition) {
  constexpr std::chrono::seconds patience{60};
  if (teams_changed().wait_for(lock, patience, condition)) return true;
  lock.unlock();
  tessera_cuda_sim_report("deadlock", (std::string(call) + " waits for ranks that do not call it").c_str());
  lock.lock();
  return false;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (id == nullptr) return ncclInvalidArgument;
  static int count = 0;
  Id made{};
  std::memcpy(made.mark, id_mark, sizeof id_mark);
  made.process = getpid();
  {
    const std::lock_guard lock(teams_mutex());
    made.number = ++count;
  }
  std::memset(id, 0, sizeof *id);
  std::memcpy(id, &made, sizeof made);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  if (comm == nullptr || ranks < 1 || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  Id given{};
  std::memcpy(&given, &id, sizeof given);
  if (std::memcmp(given.mark, id_mark, sizeof id_mark) != 0) return ncclInvalidArgument;
  if (given.process != getpid()) {
    std::fputs("[cuda_sim] NCCL: ranks as processes are not simulated, ranks as threads are\n", stderr);
    return ncclSystemError;
  }
  std::unique_lock lock(teams_mutex());
  std::shared_ptr<Team>& team = teams()[given.number];
  if (!team) {
    team = std::make_shared<Team>(ranks);
    team->name = "communicator " + std::to_string(given.number);
  }
  if (team->size != ranks || team->joined == ranks) return ncclInvalidUsage;
  ++team->joined;
  const std::shared_ptr<Team> mine = team;
  if (mine->joined == ranks) teams().erase(given.number);
  teams_changed().notify_all();
  // In a group one thread may be several ranks: they need not wait for one another here.
  if (!is_in_group() && !wait_for_ranks(lock, "ncclCommInitRank", [&] { return mine->joined == mine->size; }))
    return ncclSystemError;
  lock.unlock();
  *comm = make(mine, rank);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t*) {
  return ncclCommInitRank(comm, ranks, id, rank);
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  if (comms == nullptr || count < 1) return ncclInvalidArgument;
  const auto team = std::make_shared<Team>(count);
  team->name = "a communicator of all devices";
  team->joined = count;
  for (int rank = 0; rank < count; ++rank) {
    comms[rank] = make(team, rank);
    comms[rank]->device = devices == nullptr ? rank : devices[rank];
  }
  return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t*) {
  if (comm == nullptr || made == nullptr) return ncclInvalidArgument;
  if (is_in_group()) return ncclInvalidUsage;
  std::unique_lock lock(teams_mutex());
  Team& team = *comm->team;
  const auto rank = static_cast<size_t>(comm->rank), ranks = static_cast<size_t>(team.size);
  const size_t index = team.split_counts[rank]++;
  if (index == team.splits.size()) {
    team.splits.push_back(std::make_unique<Team::Split>());
    team.splits[index]->colors.resize(ranks);
    team.splits[index]->keys.resize(ranks);
  }
  Team::Split& split = *team.splits[index];
  split.colors[rank] = color;
  split.keys[rank] = key;
  ++split.present;
  teams_changed().notify_all();
  if (!wait_for_ranks(lock, "ncclCommSplit", [&] { return split.present == team.size; }))
    return ncclSystemError;
  *made = nullptr;
  if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  int place = 0, size = 0;
  for (size_t r = 0; r < ranks; ++r) {
    if (split.colors[r] != color) continue;
    ++size;
    place += std::pair(split.keys[r], r) < std::pair(key, rank);
  }
  std::shared_ptr<Team>& sub_team = split.made[color];
  if (!sub_team) {
    sub_team = std::make_shared<Team>(size);
    sub_team->joined = size;
    sub_team->name = team.name + ", colour " + std::to_string(color);
  }
  const std::shared_ptr<Team> mine = sub_team;
  lock.unlock();
  *made = make(mine, place);
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return comm == nullptr ? ncclInvalidArgument : ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) return ncclInvalidArgument;
  release(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclInvalidArgument;
  {
    const std::lock_guard lock(teams_mutex());
    Team& team = *comm->team;
    team.is_aborted = true;
    team.error = ncclRemoteError;
    const auto give_up = [&](const std::vector<std::shared_ptr<Call>>& calls) {
      for (const auto& call : calls)
        if (call->rank == comm->rank) call->is_done = true;
    };
    for (const auto& calls : team.collectives) give_up(calls);
    for (auto* table : {&team.sends, &team.receives})
      for (const auto& [way, calls] : *table) give_up(calls);
  }
  tessera_cuda_sim_announce();
  release(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (comm == nullptr || error == nullptr) return ncclInvalidArgument;
  const std::lock_guard lock(teams_mutex());
  *error = comm->team->error;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  if (comm == nullptr || count == nullptr) return ncclInvalidArgument;
  *count = comm->team->size;
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  if (comm == nullptr || device == nullptr) return ncclInvalidArgument;
  *device = comm->device;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  if (comm == nullptr || rank == nullptr) return ncclInvalidArgument;
  *rank = comm->rank;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  constexpr const char* texts[] = {"no error",
                                   "unhandled cuda error",
                                   "unhandled system error",
                                   "internal error",
                                   "invalid argument",
                                   "invalid usage",
                                   "remote process exited or there was a network error",
                                   "NCCL operation in progress"};
  return result >= 0 && result < ncclNumResults ? texts[result] : "unknown result code";
}

const char* ncclGetLastError(ncclComm_t) {
  return "";
}

}  // extern "C"
