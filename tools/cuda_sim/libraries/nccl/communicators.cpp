// Communicators: made by all ranks together, split, given up.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "tools/cuda_sim/libraries/nccl/group.h"
#include "tools/cuda_sim/libraries/nccl/shared_team.h"
#include "tools/cuda_sim/libraries/nccl/team.h"
#include "tools/cuda_sim/runtime/tessera_cuda_sim.h"

using namespace tessera::cuda_sim::nccl;

namespace {

constexpr char id_mark[] = "tessera cuda_sim";

/// Random, so that it names the same communicator in every process that gets it.
struct Id {
  char mark[sizeof id_mark];
  int number;  ///< in the process that made it
  std::array<uint64_t, 2> random;
};
static_assert(sizeof(Id) <= sizeof(ncclUniqueId));

std::map<std::string, std::shared_ptr<Team>>& teams() {
  static std::map<std::string, std::shared_ptr<Team>> all;
  return all;
}

thread_local int communicators_of_thread = 0;

/// Gives the communicator its team. Ranks that are threads are known to the runtime as such.
void enter(ncclComm& comm, std::shared_ptr<Team> team) {
  comm.team = std::move(team);
  if (comm.team->shared != nullptr) return;
  comm.is_thread = true;
  if (++communicators_of_thread == 1) tessera_cuda_sim_rank_thread(1);
}

ncclComm_t make(int rank) {
  auto* comm = new ncclComm;
  comm->rank = rank;
  cudaGetDevice(&comm->device);
  return comm;
}

void release(ncclComm_t comm) {
  if (comm->is_thread && --communicators_of_thread == 0) tessera_cuda_sim_rank_thread(0);
  delete comm;
}

std::chrono::milliseconds patience() {
  return std::chrono::milliseconds(tessera_cuda_sim_patience());
}

void report_absent(const char* call) {
  tessera_cuda_sim_report("deadlock", (std::string(call) + " waits for ranks that do not call it").c_str());
}

/// Waits for the other ranks at the host. False: they do not come.
template <class Condition>
bool wait_for_ranks(std::unique_lock<std::mutex>& lock, const char* call, Condition condition) {
  if (teams_changed().wait_for(lock, patience(), condition)) return true;
  lock.unlock();
  report_absent(call);
  lock.lock();
  return false;
}

/// Waits until all ranks have joined, and finds out whether they are threads or processes.
ncclResult_t enter_team(ncclComm& comm, std::unique_ptr<SharedTeam> joined, int ranks,
                        const std::string& name, const char* call) {
  if (joined == nullptr) return ncclInvalidUsage;
  if (!joined->wait_for_all(patience())) {
    report_absent(call);
    return ncclSystemError;
  }
  std::shared_ptr<Team> team;
  if (joined->is_one_process()) {
    const std::lock_guard lock(teams_mutex());
    std::shared_ptr<Team>& known = teams()[joined->name()];
    if (!known) known = std::make_shared<Team>(ranks);
    team = known;
    team->name = name;
    if (++team->joined == ranks) teams().erase(joined->name());
  } else {
    team = std::make_shared<Team>(ranks);
    team->shared = std::move(joined);
    team->shared->watch(tessera_cuda_sim_announce);
    team->name = name;
  }
  enter(comm, std::move(team));
  return ncclSuccess;
}

/// The new place of `rank` among those of its colour, and their number.
std::pair<int, int> place_in_split(const std::vector<SharedTeam::SplitEntry>& entries, size_t rank) {
  int place = 0, size = 0;
  for (size_t r = 0; r < entries.size(); ++r) {
    if (entries[r].color != entries[rank].color) continue;
    ++size;
    place += std::pair(entries[r].key, r) < std::pair(entries[rank].key, rank);
  }
  return {place, size};
}

ncclResult_t split_threads(const ncclComm& comm, SharedTeam::SplitEntry mine, ncclComm_t* made) {
  std::unique_lock lock(teams_mutex());
  Team& team = *comm.team;
  const auto rank = static_cast<size_t>(comm.rank);
  const size_t index = team.split_counts[rank]++;
  if (index == team.splits.size()) {
    team.splits.push_back(std::make_unique<Team::Split>());
    team.splits[index]->entries.resize(static_cast<size_t>(team.size));
  }
  Team::Split& split = *team.splits[index];
  split.entries[rank] = mine;
  ++split.present;
  teams_changed().notify_all();
  if (!wait_for_ranks(lock, "ncclCommSplit", [&] { return split.present == team.size; }))
    return ncclSystemError;
  if (mine.color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  const auto [place, size] = place_in_split(split.entries, rank);
  std::shared_ptr<Team>& sub_team = split.made[mine.color];
  if (!sub_team) {
    sub_team = std::make_shared<Team>(size);
    sub_team->joined = size;
    sub_team->name = team.name + ", colour " + std::to_string(mine.color);
  }
  const std::shared_ptr<Team> own_team = sub_team;
  lock.unlock();
  *made = make(place);
  enter(**made, own_team);
  return ncclSuccess;
}

ncclResult_t split_processes(const ncclComm& comm, SharedTeam::SplitEntry mine, ncclComm_t* made) {
  Team& team = *comm.team;
  const auto rank = static_cast<size_t>(comm.rank);
  const size_t index = team.split_counts[rank]++;
  std::vector<SharedTeam::SplitEntry> entries(static_cast<size_t>(team.size));
  if (!team.shared->exchange_split(mine, entries, patience())) {
    tessera_cuda_sim_report(
        "deadlock",
        ("ncclCommSplit waits for ranks that do not call it:" + team.shared->describe_others()).c_str());
    return ncclSystemError;
  }
  if (mine.color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  const auto [place, size] = place_in_split(entries, rank);
  const std::string suffix = "-" + std::to_string(index) + "-" + std::to_string(mine.color);
  *made = make(place);
  const ncclResult_t result =
      enter_team(**made, SharedTeam::join(team.shared->name() + suffix, size, place), size,
                 team.name + ", colour " + std::to_string(mine.color), "ncclCommSplit");
  if (result != ncclSuccess) delete std::exchange(*made, nullptr);
  return result;
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
  if (getentropy(made.random.data(), sizeof made.random) != 0) return ncclSystemError;
  {
    const std::lock_guard lock(teams_mutex());
    made.number = ++count;
  }
  std::memset(id, 0, sizeof *id);
  std::memcpy(id, &made, sizeof made);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (comm == nullptr || ranks < 1 || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  Id given{};
  std::memcpy(&given, &id, sizeof given);
  if (std::memcmp(given.mark, id_mark, sizeof id_mark) != 0) return ncclInvalidArgument;
  std::array<char, 64> file;
  std::snprintf(file.data(), file.size(), "/tessera-cuda-sim-%016llx%016llx",
                static_cast<unsigned long long>(given.random[0]),
                static_cast<unsigned long long>(given.random[1]));
  std::unique_ptr<SharedTeam> joined = SharedTeam::join(file.data(), ranks, rank);
  if (joined == nullptr) return ncclInvalidUsage;
  ncclComm_t made = make(rank);
  const std::string name = "communicator " + std::to_string(given.number);
  if (config != nullptr && config->blocking == 0) {
    made->start = std::make_unique<ncclComm::Start>(ncclComm::Start{std::move(joined), ranks, name});
    *comm = made;
    return ncclInProgress;
  }
  // In a group one thread may be several ranks: they wait for one another at its end.
  if (is_in_group()) {
    *comm = made;
    add_start([made, ranks, name, shared = std::make_shared<std::unique_ptr<SharedTeam>>(std::move(joined))] {
      return enter_team(*made, std::move(*shared), ranks, name, "ncclCommInitRank");
    });
    return ncclSuccess;
  }
  const ncclResult_t result = enter_team(*made, std::move(joined), ranks, name, "ncclCommInitRank");
  if (result != ncclSuccess) delete std::exchange(made, nullptr);
  *comm = made;
  return result;
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  if (comms == nullptr || count < 1) return ncclInvalidArgument;
  int there = 0;
  if (cudaGetDeviceCount(&there) != cudaSuccess) return ncclUnhandledCudaError;
  for (int rank = 0; devices != nullptr && rank < count; ++rank)
    if (devices[rank] < 0 || devices[rank] >= there) return ncclInvalidArgument;
  const auto team = std::make_shared<Team>(count);
  team->name = "a communicator of all devices";
  team->joined = count;
  for (int rank = 0; rank < count; ++rank) {
    comms[rank] = make(rank);
    enter(*comms[rank], team);
    comms[rank]->device = devices == nullptr ? rank : devices[rank];
  }
  return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t*) {
  if (comm == nullptr || comm->team == nullptr || made == nullptr) return ncclInvalidArgument;
  if (is_in_group()) return ncclInvalidUsage;
  *made = nullptr;
  const SharedTeam::SplitEntry mine{.color = color, .key = key};
  return comm->team->shared == nullptr ? split_threads(*comm, mine, made)
                                       : split_processes(*comm, mine, made);
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
  if (comm->team != nullptr) {
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
    team.shared.reset();
  }
  tessera_cuda_sim_announce();
  release(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (comm == nullptr || error == nullptr) return ncclInvalidArgument;
  if (comm->start != nullptr) {
    *error = ncclInProgress;
    if (!comm->start->joined->has_all()) return ncclSuccess;
    const std::unique_ptr<ncclComm::Start> start = std::move(comm->start);
    *error = enter_team(*comm, std::move(start->joined), start->ranks, start->name, "ncclCommInitRankConfig");
    return ncclSuccess;
  }
  if (comm->team == nullptr) return ncclInvalidArgument;
  const std::lock_guard lock(teams_mutex());
  *error = comm->team->error;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  if (comm == nullptr || comm->team == nullptr || count == nullptr) return ncclInvalidArgument;
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
