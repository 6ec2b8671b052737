#include "tools/cuda_sim/libraries/nccl/team.h"

#include <algorithm>

#include "tools/cuda_sim/libraries/nccl/exchange.h"
#include "tools/cuda_sim/runtime/tessera_cuda_sim.h"

namespace tessera::cuda_sim::nccl {

const char* kind_name(Kind kind) {
  constexpr const char* names[] = {"all-reduce", "broadcast", "reduce",  "all-gather", "reduce-scatter",
                                   "all-to-all", "gather",    "scatter", "send",       "receive"};
  return names[static_cast<size_t>(kind)];
}

std::string Call::describe() const {
  std::string text = kind_name(kind);
  text += " of " + std::to_string(count) + " elements of type " + std::to_string(type);
  if (kind == Kind::send || kind == Kind::receive)
    text += (kind == Kind::send ? " to rank " : " from rank ") + std::to_string(root);
  return text + " (number " + std::to_string(index) + " of rank " + std::to_string(rank) + " in " +
         team->name + ")";
}

Team::Team(int ranks)
    : size(ranks), collectives(static_cast<size_t>(ranks)), split_counts(static_cast<size_t>(ranks)) {}

std::mutex& teams_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::condition_variable& teams_changed() {
  static std::condition_variable changed;
  return changed;
}

std::vector<Call*> partners_of(const Call& call) {
  Team& team = *call.team;
  std::vector<Call*> partners;
  const auto find = [&](const std::vector<std::shared_ptr<Call>>& list) {
    partners.push_back(call.index < list.size() ? list[call.index].get() : nullptr);
  };
  if (call.kind == Kind::send || call.kind == Kind::receive) {
    const bool sends = call.kind == Kind::send;
    const std::pair<int, int> way = sends ? std::pair(call.rank, call.root) : std::pair(call.root, call.rank);
    find(team.sends[way]);
    find(team.receives[way]);
  } else {
    for (const auto& list : team.collectives) find(list);
  }
  return partners;
}

void carry_out(const std::vector<Call*>& calls) {
  for (Call* call : calls) call->is_done = true;
  for (const Call* call : calls)
    if (!agree(*calls[0], *call)) {
      calls[0]->team->error = ncclInvalidUsage;
      tessera_cuda_sim_report(
          "deadlock", ("ranks disagree: " + calls[0]->describe() + " and " + call->describe()).c_str());
      return;
    }
  Buffers in;
  bool is_valid = true;
  for (const Call* call : calls) {
    const size_t bytes = read_elements(*call) * element_bytes(call->type);
    is_valid &=
        tessera_cuda_sim_access(call->launch->operation, call->in, bytes, 0, kind_name(call->kind)) != 0;
    const auto* from = static_cast<const std::byte*>(call->in);
    in.emplace_back();
    if (is_valid && bytes != 0) in.back().assign(from, from + bytes);
  }
  for (const Call* call : calls)
    is_valid &= tessera_cuda_sim_access(call->launch->operation, call->out,
                                        written_elements(*call) * element_bytes(call->type), 1,
                                        kind_name(call->kind)) != 0;
  if (!is_valid) {
    calls[0]->team->error = ncclUnhandledCudaError;
    return;
  }
  for (const Call* call : calls) write_rank(in, *call);
}

}  // namespace tessera::cuda_sim::nccl
