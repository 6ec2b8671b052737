#ifdef TESSERA_WITH_NCCL

#include "dist/comm/nccl/channel.h"

#include <cstring>
#include <thread>
#include <utility>

#include "dist/comm/interface/call_plan.h"

namespace tessera::dist::nccl {
namespace {

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return ncclFloat64;
    case DType::f32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f16:
      return ncclFloat16;
    case DType::i64:
      return ncclInt64;
    case DType::i32:
      return ncclInt32;
    case DType::u8:
    case DType::boolean:
      break;
  }
  return ncclUint8;
}

/// Bools are bytes of 0 and 1: a sum of them is true when one is true, a mean when all are.
ncclRedOp_t operation_of(Reduction reduction, DType dtype) {
  const bool is_bool = dtype == boolean;
  switch (reduction) {
    case Reduction::sum:
      return is_bool ? ncclMax : ncclSum;
    case Reduction::avg:
      return is_bool ? ncclMin : ncclAvg;
    case Reduction::min:
      return ncclMin;
    case Reduction::max:
      break;
  }
  return ncclMax;
}

const void* input_of(const Operation& operation) {
  return operation.call.input.defined() ? operation.call.input.raw_data() : nullptr;
}

void* output_of(const Operation& operation) {
  return operation.call.output.defined() ? operation.call.output.raw_data() : nullptr;
}

size_t count_of(const Tensor& tensor) {
  return static_cast<size_t>(tensor.numel());
}

}  // namespace

void check(cudaError_t status, const char* what) {
  require<CommunicationError>(status == cudaSuccess, what, ": ", cudaGetErrorString(status));
}

void check(ncclResult_t status, const char* what) {
  require<CommunicationError>(status == ncclSuccess || status == ncclInProgress, what, ": ",
                              ncclGetErrorString(status));
}

bool CudaEvent::is_over() const {
  const cudaError_t status = cudaEventQuery(event_);
  if (status != cudaErrorNotReady) check(status, "cudaEventQuery");
  return status == cudaSuccess;
}

Operation::Operation(CheckedCall checked)
    : call(std::move(checked)),
      output_counts(call.output_counts.begin(), call.output_counts.end()),
      input_counts(call.input_counts.begin(), call.input_counts.end()) {
  call.output_counts = output_counts;
  call.input_counts = input_counts;
}

ChannelId make_id(bool makes) {
  ncclUniqueId id{};
  if (makes) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  ChannelId made{.bytes = Tensor::empty({static_cast<int64_t>(sizeof id)}, u8), .arrival = {}};
  std::memcpy(made.bytes.raw_data(), &id, sizeof id);
  return made;
}

Channel::Channel(int size, int rank, ChannelId id) : size_(size), rank_(rank), id_(std::move(id)) {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
}

Channel::~Channel() {
  abort();
  cudaStreamDestroy(stream_);
}

void Channel::begin() {
  ncclUniqueId id{};
  std::memcpy(&id, id_.bytes.raw_data(), sizeof id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  check(ncclCommInitRankConfig(&comm_, size_, id, rank_, &config), "ncclCommInitRankConfig");
}

bool Channel::is_ready() {
  if (is_aborted_) return false;
  if (!comm_) {
    if (!id_.arrival.is_done()) return false;
    begin();
  }
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
  check(state, "NCCL");
  return state == ncclSuccess;
}

void Channel::advance() {
  if (is_aborted_ || (is_idle() && comm_)) return;
  while (is_ready()) {
    if (issued_) {  // it is on the stream now
      issued_->done.record(stream_);
      running_.push_back(std::exchange(issued_, nullptr));
    }
    for (; !running_.empty() && running_.front()->done.is_over(); running_.pop_front()) {
      running_.front()->call.input = running_.front()->call.output =
          Tensor();  // the handle may outlive the call
      running_.front()->is_over = true;
    }
    if (waiting_.empty()) return;
    issued_ = std::move(waiting_.front());
    waiting_.pop_front();
    check(cudaStreamWaitEvent(stream_, issued_->computed.get(), 0), "cudaStreamWaitEvent");
    issue(*issued_);
  }
}

void Channel::issue(const Operation& operation) {
  const CheckedCall& call = operation.call;
  const ncclDataType_t type = type_of(call.header.dtype);
  const void* const in = input_of(operation);
  void* const out = output_of(operation);
  const ncclRedOp_t reduction = operation_of(call.header.reduction, call.header.dtype);
  switch (call.header.kind) {
    case CallKind::all_reduce:
      return check(ncclAllReduce(in, out, count_of(call.input), type, reduction, comm_, stream_),
                   "ncclAllReduce");
    case CallKind::all_gather:
      return check(ncclAllGather(in, out, count_of(call.input), type, comm_, stream_), "ncclAllGather");
    case CallKind::reduce_scatter:
      return check(ncclReduceScatter(in, out, count_of(call.output), type, reduction, comm_, stream_),
                   "ncclReduceScatter");
    case CallKind::broadcast:
      return check(ncclBroadcast(in, out, count_of(call.output), type, call.header.root, comm_, stream_),
                   "ncclBroadcast");
    case CallKind::all_to_all:
      return exchange(operation);
    case CallKind::send:
      return check(ncclSend(in, count_of(call.input), type, 1 - rank_, comm_, stream_), "ncclSend");
    case CallKind::recv:
      return check(ncclRecv(out, count_of(call.output), type, 1 - rank_, comm_, stream_), "ncclRecv");
    case CallKind::barrier:
    case CallKind::split:
      return;  // done by the host group alone
  }
}

/// NCCL has no all_to_all: the plan gives the ranges to each rank and from it. Of the other collectives
/// NCCL has its own plan, which suits the topology.
void Channel::exchange(const Operation& operation) {
  const ncclDataType_t type = type_of(operation.call.header.dtype);
  const char* const in = static_cast<const char*>(input_of(operation));
  char* const out = static_cast<char*>(output_of(operation));
  const int64_t width = size_of(operation.call.header.dtype);
  const CallPlan plan = plan_of(operation.call, rank_, size_);
  check(ncclGroupStart(), "ncclGroupStart");
  for (int peer = 0; peer < size_; ++peer) {
    const ElementRange sent = plan.sent(0, peer), received = plan.received(0, peer);
    check(ncclSend(in + sent.first * width, static_cast<size_t>(sent.count), type, peer, comm_, stream_),
          "ncclSend");
    check(ncclRecv(out + received.first * width, static_cast<size_t>(received.count), type, peer, comm_,
                   stream_),
          "ncclRecv");
  }
  check(ncclGroupEnd(), "ncclGroupEnd");
}

void Channel::close(Clock::time_point deadline) noexcept {
  try {
    if (is_aborted_ || !comm_ || !is_idle() || !is_ready()) return abort();
    check(ncclCommFinalize(comm_), "ncclCommFinalize");
    while (!is_ready()) {
      if (Clock::now() > deadline) return abort();
      std::this_thread::yield();
    }
    is_aborted_ = true;  // there is nothing left to abort
    ncclCommDestroy(comm_);
  } catch (const Error&) {
    abort();
  }
}

void Channel::abort() noexcept {
  if (std::exchange(is_aborted_, true) || !comm_) return;
  ncclCommAbort(comm_);
}

}  // namespace tessera::dist::nccl

#endif
