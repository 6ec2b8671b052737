#include "tools/cuda_sim/libraries/nccl/team.h"

#include <algorithm>

#include "tools/cuda_sim/libraries/half_types.h"
#include "tools/cuda_sim/runtime/tessera_cuda_sim.h"

namespace tessera::cuda_sim::nccl {

namespace {

double load(const void* from, ncclDataType_t type, size_t index) {
  switch (type) {
    case ncclInt8:
      return load_as<int8_t>(from, index);
    case ncclUint8:
      return load_as<uint8_t>(from, index);
    case ncclInt32:
      return load_as<int32_t>(from, index);
    case ncclUint32:
      return load_as<uint32_t>(from, index);
    case ncclFloat16:
      return half_to_double(load_as<uint16_t>(from, index));
    case ncclFloat32:
      return load_as<float>(from, index);
    case ncclFloat64:
      return load_as<double>(from, index);
    default:
      return bfloat_to_double(load_as<uint16_t>(from, index));
  }
}

void store(void* to, ncclDataType_t type, size_t index, double value) {
  switch (type) {
    case ncclInt8:
      store_as(to, index, static_cast<int8_t>(value));
      break;
    case ncclUint8:
      store_as(to, index, static_cast<uint8_t>(value));
      break;
    case ncclInt32:
      store_as(to, index, static_cast<int32_t>(value));
      break;
    case ncclUint32:
      store_as(to, index, static_cast<uint32_t>(value));
      break;
    case ncclFloat16:
      store_as(to, index, double_to_half(value));
      break;
    case ncclFloat32:
      store_as(to, index, static_cast<float>(value));
      break;
    case ncclFloat64:
      store_as(to, index, value);
      break;
    default:
      store_as(to, index, float_to_bfloat(static_cast<float>(value)));
  }
}

template <class T>
T reduce_pair(ncclRedOp_t reduction, T a, T b) {
  switch (reduction) {
    case ncclProd:
      return a * b;
    case ncclMax:
      return a < b || b != b ? b : a;
    case ncclMin:
      return b < a || b != b ? b : a;
    default:
      return a + b;
  }
}

/// Bytes that a rank reads and writes.
size_t read_elements(const Call& call) {
  const auto ranks = static_cast<size_t>(call.team->size);
  switch (call.kind) {
    case Kind::reduce_scatter:
    case Kind::all_to_all:
      return call.count * ranks;
    case Kind::scatter:
      return call.rank == call.root ? call.count * ranks : 0;
    case Kind::broadcast:
      return call.rank == call.root ? call.count : 0;
    case Kind::receive:
      return 0;
    default:
      return call.count;
  }
}
size_t written_elements(const Call& call) {
  const auto ranks = static_cast<size_t>(call.team->size);
  switch (call.kind) {
    case Kind::all_gather:
    case Kind::all_to_all:
      return call.count * ranks;
    case Kind::gather:
      return call.rank == call.root ? call.count * ranks : 0;
    case Kind::reduce:
      return call.rank == call.root ? call.count : 0;
    case Kind::send:
      return 0;
    default:
      return call.count;
  }
}

using Buffers = std::vector<std::vector<std::byte>>;

/// Element `index` over all ranks, in the order of ranks.
void reduce_element(const std::vector<Call*>& calls, const Buffers& in, size_t index, void* out, size_t to) {
  const Call& first = *calls[0];
  if (first.type == ncclInt64 || first.type == ncclUint64) {
    // Two's complement: sums and products are the same for both.
    auto value = load_as<uint64_t>(in[0].data(), index);
    for (size_t r = 1; r < in.size(); ++r) {
      const auto next = load_as<uint64_t>(in[r].data(), index);
      value = first.type == ncclInt64 && (first.reduction == ncclMax || first.reduction == ncclMin)
                  ? static_cast<uint64_t>(
                        reduce_pair(first.reduction, static_cast<int64_t>(value), static_cast<int64_t>(next)))
                  : reduce_pair(first.reduction, value, next);
    }
    store_as(out, to, first.reduction == ncclAvg ? value / in.size() : value);
    return;
  }
  double value = load(in[0].data(), first.type, index);
  for (size_t r = 1; r < in.size(); ++r)
    value = reduce_pair(first.reduction, value, load(in[r].data(), first.type, index));
  store(out, first.type, to, first.reduction == ncclAvg ? value / static_cast<double>(in.size()) : value);
}

void copy_elements(const Call& call, const std::vector<std::byte>& from, size_t from_index, size_t to_index) {
  const size_t size = element_bytes(call.type);
  std::memcpy(static_cast<std::byte*>(call.out) + to_index * size, from.data() + from_index * size,
              call.count * size);
}

void write_rank(const std::vector<Call*>& calls, const Buffers& in, const Call& call) {
  const auto rank = static_cast<size_t>(call.rank), root = static_cast<size_t>(call.root);
  switch (call.kind) {
    case Kind::all_reduce:
      for (size_t i = 0; i < call.count; ++i) reduce_element(calls, in, i, call.out, i);
      break;
    case Kind::reduce:
      if (rank == root)
        for (size_t i = 0; i < call.count; ++i) reduce_element(calls, in, i, call.out, i);
      break;
    case Kind::reduce_scatter:
      for (size_t i = 0; i < call.count; ++i) reduce_element(calls, in, rank * call.count + i, call.out, i);
      break;
    case Kind::broadcast:
      copy_elements(call, in[root], 0, 0);
      break;
    case Kind::all_gather:
      for (size_t r = 0; r < in.size(); ++r) copy_elements(call, in[r], 0, r * call.count);
      break;
    case Kind::all_to_all:
      for (size_t r = 0; r < in.size(); ++r) copy_elements(call, in[r], rank * call.count, r * call.count);
      break;
    case Kind::gather:
      if (rank == root)
        for (size_t r = 0; r < in.size(); ++r) copy_elements(call, in[r], 0, r * call.count);
      break;
    case Kind::scatter:
      copy_elements(call, in[root], rank * call.count, 0);
      break;
    case Kind::receive:
      copy_elements(call, in[0], 0, 0);
      break;
    case Kind::send:
      break;
  }
}

bool agree(const Call& a, const Call& b) {
  if (a.type != b.type || a.count != b.count) return false;
  if (a.kind == Kind::send) return true;
  return a.kind == b.kind && a.reduction == b.reduction && a.root == b.root;
}

}  // namespace

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

size_t element_bytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 2;
  }
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
  for (const Call* call : calls) write_rank(calls, in, *call);
}

}  // namespace tessera::cuda_sim::nccl
