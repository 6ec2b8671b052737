// A simulation of NCCL, and of what its communicator uses of CUDA's runtime, between threads of one process.
// As in NCCL, a handle connects once all its ranks have asked for it, a call reaches its stream some time
// after NCCL took it, and a stream runs in order: a kernel that waits for a rank delays all after it.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tensor/cpu/combine_sources.h"
#include "tensor/types/dtype.h"

using namespace tessera;
using kernels::cpu::Combination;

namespace {

enum class Kind { all_reduce, all_gather, reduce_scatter, broadcast, messages };

/// A message, as one of its sides sees it.
struct Side {
  bool sends;
  const void* in;
  void* out;
  size_t bytes;
  int peer;
  bool is_over = false;
};

struct Kernel {
  Kind kind;
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;
  DType dtype = f32;
  Combination combination = Combination::sum;
  int root = 0;
  std::vector<Side> sides = {};
  bool is_over = false;
};

struct Stream {
  std::deque<std::shared_ptr<Kernel>> kernels;
  size_t put = 0, ended = 0;
};

struct Group {
  int size = 0;
  std::map<int, ncclComm*> members;
};

std::mutex mutex;
std::map<int, std::shared_ptr<Group>> groups;
int ids = 0;

}  // namespace

struct CUevent_st {
  Stream* stream = nullptr;
  size_t after = 0;
};

struct ncclComm {
  std::shared_ptr<Group> group;
  int rank = 0;
  Stream* stream = nullptr;
  std::shared_ptr<Kernel> taken = nullptr;  ///< not on the stream yet
  int polls_left = 0;                       ///< until it is
  bool in_group = false, is_aborted = false;

  /// The kernel that this rank runs now.
  Kernel* running() const {
    return !stream || stream->kernels.empty() ? nullptr : stream->kernels.front().get();
  }
};

namespace {

thread_local std::vector<std::pair<ncclComm*, Side>>* open_group = nullptr;

DType dtype_from(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
      return f64;
    case ncclFloat32:
      return f32;
    case ncclBfloat16:
      return bf16;
    case ncclFloat16:
      return f16;
    case ncclInt64:
      return i64;
    case ncclInt32:
      return i32;
    default:
      return u8;
  }
}

Combination combination_of(ncclRedOp_t op) {
  if (op == ncclSum) return Combination::sum;
  if (op == ncclAvg) return Combination::mean;
  return op == ncclMin ? Combination::smallest : Combination::largest;
}

/// Runs the collective that every rank has reached, on their memory.
void run(const std::vector<Kernel*>& all) {
  const Kernel& first = *all.front();
  const size_t width = static_cast<size_t>(size_of(first.dtype)), ranks = all.size();
  std::vector<std::vector<char>> inputs;
  for (const Kernel* kernel : all) {
    const bool is_full = kernel->kind == Kind::reduce_scatter;
    const auto* in = static_cast<const char*>(kernel->in);
    const bool has_input = kernel->kind != Kind::broadcast || in == all[static_cast<size_t>(first.root)]->in;
    const size_t bytes = has_input ? kernel->count * width * (is_full ? ranks : 1) : 0;
    inputs.emplace_back(in, in + bytes);
  }
  for (size_t r = 0; r < ranks; ++r) {
    const Kernel& kernel = *all[r];
    const size_t bytes = kernel.count * width;
    char* const out = static_cast<char*>(kernel.out);
    if (kernel.kind == Kind::broadcast && bytes > 0)
      std::memcpy(out, inputs[static_cast<size_t>(first.root)].data(), bytes);
    for (size_t from = 0; kernel.kind == Kind::all_gather && bytes > 0 && from < ranks; ++from)
      std::memcpy(out + from * bytes, inputs[from].data(), bytes);
    if (kernel.kind != Kind::all_reduce && kernel.kind != Kind::reduce_scatter) continue;
    std::vector<const void*> sources;
    for (const auto& input : inputs)
      sources.push_back(input.data() + (kernel.kind == Kind::reduce_scatter ? r * bytes : 0));
    kernels::cpu::combine_sources(kernel.dtype, kernel.combination, sources, out,
                                  static_cast<int64_t>(kernel.count));
  }
}

void match_messages(const Group& group, int rank, Kernel& kernel) {
  bool all_over = true;
  for (Side& side : kernel.sides) {
    const auto peer = group.members.find(side.peer);
    Kernel* const other = peer == group.members.end() ? nullptr : peer->second->running();
    for (size_t i = 0; !side.is_over && side.sends && other && i < other->sides.size(); ++i) {
      Side& receive = other->sides[i];
      if (receive.sends || receive.is_over || receive.peer != rank || receive.bytes != side.bytes) continue;
      if (side.bytes > 0) std::memcpy(receive.out, side.in, side.bytes);
      receive.is_over = side.is_over = true;
    }
    all_over = all_over && side.is_over;
  }
  kernel.is_over = all_over;
}

void run_group(const Group& group) {
  if (static_cast<int>(group.members.size()) < group.size) return;
  std::vector<Kernel*> all;
  bool same = true;
  for (const auto& [rank, member] : group.members) {
    Kernel* const kernel = member->running();
    if (kernel && kernel->kind == Kind::messages) match_messages(group, rank, *kernel);
    all.push_back(kernel && !kernel->is_over ? kernel : nullptr);
    same = same && all.back() && all.back()->kind != Kind::messages &&
           all.back()->kind == all.front()->kind && all.back()->count == all.front()->count;
  }
  if (same) run(all);
  for (size_t r = 0; same && r < all.size(); ++r) all[r]->is_over = true;
  for (const auto& [rank, member] : group.members) {
    if (!member->running() || !member->running()->is_over) continue;
    member->stream->kernels.pop_front();
    ++member->stream->ended;
  }
}

void progress() {
  for (const auto& [id, group] : groups) run_group(*group);
}

ncclResult_t take(ncclComm* comm, Stream* stream, Kernel kernel) {
  const std::lock_guard lock(mutex);
  if (comm->taken) return ncclInvalidUsage;  // the caller did not wait until NCCL was ready
  comm->stream = stream;
  comm->taken = std::make_shared<Kernel>(std::move(kernel));
  comm->polls_left = 3;
  return ncclInProgress;
}

Stream* as_stream(cudaStream_t stream) {
  return reinterpret_cast<Stream*>(stream);
}

ncclResult_t message(ncclComm* comm, cudaStream_t stream, const Side& side) {
  if (open_group) {
    comm->stream = as_stream(stream);
    open_group->emplace_back(comm, side);
    return ncclSuccess;
  }
  return take(comm, as_stream(stream), {.kind = Kind::messages, .sides = {side}});
}

size_t bytes_of(size_t count, ncclDataType_t type) {
  return count * static_cast<size_t>(size_of(dtype_from(type)));
}

}  // namespace

extern "C" {

const char* cudaGetErrorString(cudaError_t) {
  return "a CUDA error";
}
cudaError_t cudaSetDevice(int) {
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = reinterpret_cast<cudaStream_t>(new Stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  for (const auto& [id, group] : groups)
    for (const auto& [rank, member] : group->members)
      if (member->stream == as_stream(stream)) member->stream = nullptr;
  delete as_stream(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  if (stream == cudaStreamPerThread) return cudaSuccess;
  *event = {as_stream(stream), as_stream(stream)->put};
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(mutex);
  progress();
  return !event->stream || event->stream->ended >= event->after ? cudaSuccess : cudaErrorNotReady;
}

const char* ncclGetErrorString(ncclResult_t) {
  return "an NCCL error";
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(mutex);
  ++ids;
  std::memcpy(id, &ids, sizeof ids);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidArgument;
  const std::lock_guard lock(mutex);
  int number = 0;
  std::memcpy(&number, &id, sizeof number);
  auto& group = groups[number];
  if (!group) group = std::make_shared<Group>();
  group->size = size;
  *comm = new ncclComm{.group = group, .rank = rank};
  group->members[rank] = *comm;
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const std::lock_guard lock(mutex);
  progress();
  *state = ncclInProgress;
  if (static_cast<int>(comm->group->members.size()) < comm->group->size) return ncclSuccess;
  if (comm->taken) {
    if (--comm->polls_left > 0) return ncclSuccess;
    comm->stream->kernels.push_back(std::exchange(comm->taken, nullptr));
    ++comm->stream->put;
  }
  *state = ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) {
  return ncclInProgress;
}
ncclResult_t ncclCommDestroy(ncclComm_t) {
  return ncclSuccess;  // the others may still read it
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const std::lock_guard lock(mutex);
  comm->is_aborted = true;
  if (comm->stream) comm->stream->kernels.clear();
  return ncclSuccess;
}
ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return take(comm, as_stream(stream),
              {.kind = Kind::all_reduce,
               .in = in,
               .out = out,
               .count = count,
               .dtype = dtype_from(type),
               .combination = combination_of(op)});
}
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return take(comm, as_stream(stream),
              {.kind = Kind::reduce_scatter,
               .in = in,
               .out = out,
               .count = count,
               .dtype = dtype_from(type),
               .combination = combination_of(op)});
}
ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return take(comm, as_stream(stream),
              {.kind = Kind::all_gather, .in = in, .out = out, .count = count, .dtype = dtype_from(type)});
}
ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return take(comm, as_stream(stream),
              {.kind = Kind::broadcast,
               .in = in,
               .out = out,
               .count = count,
               .dtype = dtype_from(type),
               .root = root});
}
ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return message(comm, stream,
                 {.sends = true, .in = in, .out = nullptr, .bytes = bytes_of(count, type), .peer = peer});
}
ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return message(comm, stream,
                 {.sends = false, .in = nullptr, .out = out, .bytes = bytes_of(count, type), .peer = peer});
}
ncclResult_t ncclGroupStart() {
  open_group = new std::vector<std::pair<ncclComm*, Side>>;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  const std::unique_ptr<std::vector<std::pair<ncclComm*, Side>>> sides(std::exchange(open_group, nullptr));
  Kernel kernel{.kind = Kind::messages};
  for (const auto& [comm, side] : *sides) kernel.sides.push_back(side);
  return take(sides->front().first, sides->front().first->stream, std::move(kernel));
}
}
