// Collectives, sends and receives.
#include "tools/cuda_sim/libraries/nccl/group.h"

using namespace tessera::cuda_sim::nccl;

namespace {

bool is_type(ncclDataType_t type) {
  return type >= ncclInt8 && type <= ncclBfloat16;
}

ncclResult_t call(ncclComm_t comm, cudaStream_t stream, const Call& made) {
  if (comm == nullptr || comm->team == nullptr) return ncclInvalidArgument;
  if (!is_type(made.type) || made.reduction < ncclSum || made.reduction >= ncclNumOps)
    return ncclInvalidArgument;
  if (made.root < 0 || made.root >= comm->team->size) return ncclInvalidArgument;
  const bool reads = made.kind != Kind::receive, writes = made.kind != Kind::send;
  const bool is_root = made.root == comm->rank;
  const bool only_root_reads = made.kind == Kind::broadcast || made.kind == Kind::scatter;
  const bool only_root_writes = made.kind == Kind::reduce || made.kind == Kind::gather;
  if (made.count != 0 && reads && made.in == nullptr && (is_root || !only_root_reads))
    return ncclInvalidArgument;
  if (made.count != 0 && writes && made.out == nullptr && (is_root || !only_root_writes))
    return ncclInvalidArgument;
  return add_call(comm, made, stream);
}

Call make(Kind kind, const void* in, void* out, size_t count, ncclDataType_t type) {
  Call made;
  made.kind = kind;
  made.in = in;
  made.out = out;
  made.count = count;
  made.type = type;
  return made;
}

Call make(Kind kind, const void* in, void* out, size_t count, ncclDataType_t type, int root) {
  Call made = make(kind, in, out, count, type);
  made.root = root;
  return made;
}

Call make(Kind kind, const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t reduction,
          int root) {
  Call made = make(kind, in, out, count, type, root);
  made.reduction = reduction;
  return made;
}

}  // namespace

extern "C" {

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, make(Kind::all_reduce, in, out, count, type, reduction, 0));
}

ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t reduction,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, make(Kind::reduce, in, out, count, type, reduction, root));
}

ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, make(Kind::reduce_scatter, in, out, count, type, reduction, 0));
}

ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, make(Kind::broadcast, in, out, count, type, root));
}

ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return call(comm, stream, make(Kind::all_gather, in, out, count, type));
}

ncclResult_t ncclAlltoAll(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream) {
  return call(comm, stream, make(Kind::all_to_all, in, out, count, type));
}

ncclResult_t ncclGather(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, make(Kind::gather, in, out, count, type, root));
}

ncclResult_t ncclScatter(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                         ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, make(Kind::scatter, in, out, count, type, root));
}

ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call(comm, stream, make(Kind::send, in, nullptr, count, type, peer));
}

ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call(comm, stream, make(Kind::receive, nullptr, out, count, type, peer));
}

}  // extern "C"
