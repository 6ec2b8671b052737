#include "tools/cuda_sim/libraries/nccl/group.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tools/cuda_sim/libraries/nccl/process_ranks.h"
#include "tools/cuda_sim/runtime/tessera_cuda_sim.h"

namespace tessera::cuda_sim::nccl {

namespace {

struct Waiting {
  ncclComm_t comm;
  cudaStream_t stream;
  std::shared_ptr<Call> call;
};

struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<Waiting> calls;
  std::vector<std::function<ncclResult_t()>> starts;
};
thread_local Group group;

/// What an operation of the runtime holds.
struct Operation {
  std::shared_ptr<Launch> launch;
  std::shared_ptr<Team> team;
  std::vector<std::shared_ptr<Call>> calls;
};

/// An operation of the runtime: what of its calls can be carried out is. 1: all of them are.
int run(void* data, uint32_t operation) {
  const Operation& mine = *static_cast<const Operation*>(data);
  const std::lock_guard lock(teams_mutex());
  mine.launch->operation = operation;
  mine.launch->stands = true;
  int all_done = 1;
  for (const auto& call : mine.calls) {
    if (call->is_done) continue;
    if (call->team->shared != nullptr) {
      if (!step(*call, operation)) all_done = 0;
      continue;
    }
    const std::vector<Call*> partners = partners_of(*call);
    const bool can_run = std::ranges::all_of(partners, [](const Call* one) {
      return one != nullptr && one->launch != nullptr && one->launch->stands;
    });
    if (can_run) carry_out(partners);
    if (!call->is_done) all_done = 0;
  }
  return all_done;
}

size_t find_partners(void* data, uint32_t* operations, size_t most, int* missing) {
  const Operation& mine = *static_cast<const Operation*>(data);
  const std::lock_guard lock(teams_mutex());
  size_t count = 0;
  for (const auto& call : mine.calls) {
    if (call->is_done) continue;
    if (call->team->shared != nullptr) {
      *missing = 1;
      continue;
    }
    for (const Call* partner : partners_of(*call)) {
      if (partner == nullptr || partner->launch == nullptr || partner->launch->operation == 0) {
        *missing = 1;
      } else if (!partner->launch->stands && count < most) {
        operations[count++] = partner->launch->operation;
      }
    }
  }
  return count;
}

/// What the ranks of other processes have called.
size_t explain(void* data, char* text, size_t bytes) {
  const Operation& mine = *static_cast<const Operation*>(data);
  const std::lock_guard lock(teams_mutex());
  const std::string all = mine.team->shared == nullptr ? "" : mine.team->shared->describe_others();
  const size_t copied = std::min(bytes, all.size());
  std::memcpy(text, all.data(), copied);
  return copied;
}

/// Enters a call into its team's lists, by which partners find it.
void enlist(const std::shared_ptr<Call>& call) {
  Team& team = *call->team;
  auto& list = call->kind == Kind::send      ? team.sends[{call->rank, call->root}]
               : call->kind == Kind::receive ? team.receives[{call->root, call->rank}]
                                             : team.collectives[static_cast<size_t>(call->rank)];
  call->index = list.size();
  list.push_back(call);
}

ncclResult_t launch_all(const std::vector<Waiting>& calls) {
  std::vector<std::pair<const Waiting*, std::unique_ptr<Operation>>> operations;
  {
    const std::lock_guard lock(teams_mutex());
    for (const Waiting& one : calls) {
      auto it = std::ranges::find_if(operations, [&](const auto& entry) {
        return entry.first->comm == one.comm && entry.first->stream == one.stream;
      });
      if (it == operations.end()) {
        it = operations.emplace(operations.end(), &one, std::make_unique<Operation>());
        it->second->launch = std::make_shared<Launch>();
        it->second->team = one.comm->team;
      }
      it->second->calls.push_back(one.call);
      one.call->launch = it->second->launch;
      enlist(one.call);
      if (one.call->team->shared == nullptr) continue;
      one.call->team->unfinished.push_back(one.call);
      show_queue(*one.call->team);
    }
  }
  for (auto& [one, operation] : operations) {
    std::string name = operation->calls[0]->describe();
    if (operation->calls.size() > 1)
      name += " and " + std::to_string(operation->calls.size() - 1) + " more of its group";
    const std::shared_ptr<Launch> launch = operation->launch;
    const tessera_cuda_sim_callbacks callbacks = {
        .run = run,
        .partners = find_partners,
        .explain = operation->team->shared == nullptr ? nullptr : explain,
        .release = [](void* data) { delete static_cast<Operation*>(data); }};
    const int error = tessera_cuda_sim_meeting(name.c_str(), one->stream, &launch->operation, &callbacks,
                                               operation.release());
    if (error != cudaSuccess) return ncclUnhandledCudaError;
  }
  return ncclSuccess;
}

}  // namespace

bool is_in_group() {
  return group.depth != 0;
}

void add_start(std::function<ncclResult_t()> start) {
  group.starts.push_back(std::move(start));
}

ncclResult_t add_call(ncclComm_t comm, Call call, cudaStream_t stream) {
  call.team = comm->team.get();
  call.rank = comm->rank;
  Waiting waiting{comm, stream, std::make_shared<Call>(call)};
  if (!is_in_group()) return launch_all({waiting});
  group.calls.push_back(std::move(waiting));
  return ncclSuccess;
}

}  // namespace tessera::cuda_sim::nccl

using namespace tessera::cuda_sim::nccl;

extern "C" {

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return ncclInvalidUsage;
  if (--group.depth != 0) return ncclSuccess;
  for (const auto& start : std::exchange(group.starts, {}))
    if (const ncclResult_t error = start(); error != ncclSuccess) return error;
  const std::vector<Waiting> calls = std::move(group.calls);
  group.calls.clear();
  return launch_all(calls);
}

}  // extern "C"
