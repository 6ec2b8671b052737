#include "tools/cuda_sim/libraries/nccl/process_ranks.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tools/cuda_sim/libraries/nccl/exchange.h"
#include "tools/cuda_sim/libraries/nccl/shared_team.h"
#include "tools/cuda_sim/runtime/tessera_cuda_sim.h"

namespace tessera::cuda_sim::nccl {

namespace {

bool is_message(Kind kind) {
  return kind == Kind::send || kind == Kind::receive;
}

/// The call of `rank` that answers `call`: its own of the same number, or the other side of a message.
SharedCall* answer(const Call& call, int rank) {
  return call.team->shared->find(rank, [&](const SharedCall& one) {
    const auto kind = static_cast<Kind>(one.kind);
    if (one.index != call.index || is_message(kind) != is_message(call.kind)) return false;
    if (!is_message(kind)) return true;
    return kind != call.kind && one.root == call.rank;
  });
}

std::vector<int> other_ranks(const Call& call) {
  if (is_message(call.kind)) return {call.root};
  std::vector<int> others;
  for (int rank = 0; rank < call.team->size; ++rank)
    if (rank != call.rank) others.push_back(rank);
  return others;
}

/// The shared call as this process would have made it.
Call local_copy(const SharedCall& shared, int rank, Team* team) {
  Call copy;
  copy.kind = static_cast<Kind>(shared.kind);
  copy.type = static_cast<ncclDataType_t>(shared.type);
  copy.reduction = static_cast<ncclRedOp_t>(shared.reduction);
  copy.root = shared.root;
  copy.count = shared.count;
  copy.index = shared.index;
  copy.rank = rank;
  copy.team = team;
  return copy;
}

void fail(Call& call, ncclResult_t error, const std::string& message) {
  call.is_done = true;
  call.team->error = error;
  if (!message.empty()) tessera_cuda_sim_report("deadlock", message.c_str());
}

/// False: it has to be tried again.
bool publish(Call& call, uint32_t operation) {
  const size_t bytes = read_elements(call) * element_bytes(call.type);
  const bool is_valid =
      tessera_cuda_sim_access(operation, call.in, bytes, 0, kind_name(call.kind)) != 0 &&
      tessera_cuda_sim_access(operation, call.out, written_elements(call) * element_bytes(call.type), 1,
                              kind_name(call.kind)) != 0;
  if (is_valid && bytes != 0) {
    const auto* const from = static_cast<const std::byte*>(call.in);
    call.data.assign(from, from + bytes);
  }
  SharedCall shown{};
  shown.state = is_valid ? SharedCall::stands : SharedCall::refused;
  shown.kind = static_cast<uint32_t>(call.kind);
  shown.type = static_cast<uint32_t>(call.type);
  shown.reduction = static_cast<uint32_t>(call.reduction);
  shown.root = call.root;
  shown.index = call.index;
  shown.count = call.count;
  const auto readers = static_cast<uint32_t>(other_ranks(call).size());
  if (!call.team->shared->publish(shown, call.data, readers)) return false;
  call.is_published = true;
  if (!is_valid) fail(call, ncclUnhandledCudaError, "");
  return true;
}

/// A rank without an answer that is gone ends the call.
bool ends_for_lack_of(Call& call, int rank) {
  const SharedTeam& shared = *call.team->shared;
  if (!shared.is_gone(rank) || answer(call, rank) != nullptr) return false;
  fail(call, ncclRemoteError,
       call.describe() + " can never end: " + shared.describe_rank(rank) + ". Waiting are\n  " +
           shared.describe_rank(call.rank) + shared.describe_others());
  return true;
}

/// All answers are there.
void finish(Call& call, const std::vector<SharedCall*>& answers, const std::vector<int>& ranks) {
  call.is_done = true;
  Buffers in(is_message(call.kind) ? 1 : static_cast<size_t>(call.team->size));
  if (!is_message(call.kind)) in[static_cast<size_t>(call.rank)] = std::move(call.data);
  for (size_t i = 0; i < answers.size(); ++i) {
    const Call other = local_copy(*answers[i], ranks[i], call.team);
    if (answers[i]->state.load() == SharedCall::refused) {
      fail(call, ncclRemoteError, "");
    } else if (!agree(call, other)) {
      fail(call, ncclInvalidUsage, "ranks disagree: " + call.describe() + " and " + other.describe());
    } else if (call.kind != Kind::send) {
      auto& data = in[is_message(call.kind) ? 0 : static_cast<size_t>(ranks[i])];
      data.resize(answers[i]->bytes);
      if (!call.team->shared->read(*answers[i], 0, data)) fail(call, ncclSystemError, "");
    }
    call.team->shared->set_read(*answers[i]);
  }
  if (call.team->error == ncclSuccess) write_rank(in, call);
}

}  // namespace

bool step(Call& call, uint32_t operation) {
  if (call.is_done) return true;
  if (call.team->error != ncclSuccess) {
    call.is_done = true;
  } else if (call.is_published || publish(call, operation)) {
    std::vector<SharedCall*> answers;
    const std::vector<int> ranks = other_ranks(call);
    for (const int rank : ranks) {
      if (call.is_done) break;
      answers.push_back(answer(call, rank));
      if (answers.back() == nullptr && !ends_for_lack_of(call, rank)) return false;
    }
    if (!call.is_done) finish(call, answers, ranks);
  }
  if (call.is_done) show_queue(*call.team);
  return call.is_done;
}

void show_queue(Team& team) {
  std::erase_if(team.unfinished, [](const auto& call) { return call->is_done; });
  std::string text;
  constexpr size_t shown = 3;
  for (size_t i = 0; i < std::min(shown, team.unfinished.size()); ++i)
    text += (i == 0 ? "" : ", then ") + team.unfinished[i]->describe();
  if (team.unfinished.size() > shown)
    text += ", and " + std::to_string(team.unfinished.size() - shown) + " more";
  team.shared->set_queue(text);
}

}  // namespace tessera::cuda_sim::nccl
