// NCCL moves the bytes and sums them; the host group that it was made from compares headers. A call is put on
// a stream of its own, after an event of the computing stream; a wait polls an event with a deadline, since a
// kernel of NCCL's whose peer is gone never ends by itself.
#ifdef TESSERA_WITH_NCCL

#include "dist/comm/nccl_communicator.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstring>
#include <thread>

namespace tessera::dist::nccl {
namespace {

using Clock = std::chrono::steady_clock;

void check(cudaError_t status, const char* what) {
  require<CommunicationError>(status == cudaSuccess, what, ": ", cudaGetErrorString(status));
}

void check(ncclResult_t status, const char* what) {
  require<CommunicationError>(status == ncclSuccess || status == ncclInProgress, what, ": ",
                              ncclGetErrorString(status));
}

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

ncclRedOp_t operation_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return ncclSum;
    case Reduction::avg:
      return ncclAvg;
    case Reduction::min:
      return ncclMin;
    case Reduction::max:
      break;
  }
  return ncclMax;
}

/// A CUDA event, which frees itself.
class Event {
 public:
  Event() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  bool is_over() const {
    const cudaError_t status = cudaEventQuery(event_);
    if (status != cudaErrorNotReady) check(status, "cudaEventQuery");
    return status == cudaSuccess;
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// NCCL's handle and the stream that its kernels run on.
struct Channel {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::chrono::milliseconds timeout{};
  std::string group;
  bool aborted = false;

  ~Channel() {
    if (comm && !aborted) ncclCommDestroy(comm);
    if (stream) cudaStreamDestroy(stream);
  }
  void abort() {
    if (!std::exchange(aborted, true)) ncclCommAbort(comm);
  }
};

class NcclCall final : public PendingCall {
 public:
  NcclCall(std::shared_ptr<Channel> channel, CheckedCall call, Work agreement)
      : channel_(std::move(channel)), call_(std::move(call)), agreement_(std::move(agreement)) {
    done_.record(channel_->stream);
  }

  bool poll() override { return agreement_.is_done() && done_.is_over(); }
  void wait_output() override { wait(); }
  void wait() override {
    try {
      agreement_.wait();  // throws where a rank made another call
      await_kernels();
    } catch (...) {
      channel_->abort();
      throw;
    }
  }

 private:
  void await_kernels() {
    const Clock::time_point deadline = Clock::now() + channel_->timeout;
    while (!done_.is_over()) {
      ncclResult_t fault = ncclSuccess;
      check(ncclCommGetAsyncError(channel_->comm, &fault), "ncclCommGetAsyncError");
      require<CommunicationError>(fault == ncclSuccess || fault == ncclInProgress, to_string(call_.header),
                                  " of group '", channel_->group, "': ", ncclGetErrorString(fault));
      require<CommunicationError>(Clock::now() < deadline, to_string(call_.header), " of group '",
                                  channel_->group, "' was not over after ", channel_->timeout.count(), " ms");
      std::this_thread::yield();
    }
  }

  std::shared_ptr<Channel> channel_;
  CheckedCall call_;  // holds the tensors
  Work agreement_;
  Event done_;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<Communicator> host, Device device, std::chrono::milliseconds timeout)
      : Communicator(host->name(), host->rank(), {host->members().begin(), host->members().end()},
                     host->shared_ledger()),
        host_(std::move(host)),
        device_(device),
        channel_(std::make_shared<Channel>()) {
    channel_->timeout = timeout;
    channel_->group = name();
    check(cudaSetDevice(device.index), "cudaSetDevice");
    check(cudaStreamCreateWithFlags(&channel_->stream, cudaStreamNonBlocking), "cudaStreamCreate");
    ncclUniqueId id{};
    if (rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    const Tensor bytes = Tensor::empty({static_cast<int64_t>(sizeof id)}, DType::u8);
    std::memcpy(bytes.raw_data(), &id, sizeof id);
    host_->broadcast(bytes, 0, {.unit = "nccl id"}).wait();
    std::memcpy(&id, bytes.raw_data(), sizeof id);
    check(ncclCommInitRank(&channel_->comm, size(), id, rank()), "ncclCommInitRank");
  }

  Device device() const override { return device_; }
  void poll() override { host_->poll(); }

 protected:
  std::shared_ptr<PendingCall> start(Call call) override {
    if (call.header.kind == CallKind::split) {  // words between hosts
      host_->all_gather(call.output, call.input, {.unit = "split"}).wait();
      return std::make_shared<NcclCall>(channel_, std::move(call), Work());
    }
    Work agreement = compare(call);
    Event computed;
    computed.record(cudaStreamPerThread);
    check(cudaStreamWaitEvent(channel_->stream, computed.get(), 0), "cudaStreamWaitEvent");
    enqueue(call);
    return std::make_shared<NcclCall>(channel_, std::move(call), std::move(agreement));
  }
  int64_t open_group(std::span<const int>) override { return 0; }
  std::shared_ptr<Communicator> join_group(const std::string& name, std::span<const int> ranks, int index,
                                           int64_t) override {
    return std::make_shared<NcclCommunicator>(host_->split(ranks.front(), index, name), device_,
                                              channel_->timeout);
  }

 private:
  /// A barrier of the host group that carries this call's header: it ends where all ranks make the same call.
  Work compare(const Call& call) {
    if (call.header.kind == CallKind::send || call.header.kind == CallKind::recv) return {};
    const Tensor words = Tensor::from<int64_t>({call.header.bytes});
    const std::string name = text(name_of(call.header.kind), " ", name_of(call.header.reduction), " ",
                                  call.header.dtype, " root ", call.header.root, " ", call.header.unit);
    const bool one_size = call.header.kind != CallKind::all_to_all;
    return one_size ? host_->all_reduce(words, Reduction::max, {.unit = text(name, " ", call.header.bytes)})
                    : host_->all_reduce(words, Reduction::max, {.unit = name});
  }

  void enqueue(const Call& call) {
    const ncclDataType_t type = type_of(call.header.dtype);
    const void* in = call.input.defined() ? call.input.raw_data() : nullptr;
    void* out = call.output.defined() ? call.output.raw_data() : nullptr;
    const auto count = [](const Tensor& tensor) { return static_cast<size_t>(tensor.numel()); };
    ncclComm_t comm = channel_->comm;
    cudaStream_t stream = channel_->stream;
    switch (call.header.kind) {
      case CallKind::all_reduce:
        return check(ncclAllReduce(in, out, count(call.input), type, operation_of(call.header.reduction),
                                   comm, stream),
                     "ncclAllReduce");
      case CallKind::all_gather:
        return check(ncclAllGather(in, out, count(call.input), type, comm, stream), "ncclAllGather");
      case CallKind::reduce_scatter:
        return check(ncclReduceScatter(in, out, count(call.output), type, operation_of(call.header.reduction),
                                       comm, stream),
                     "ncclReduceScatter");
      case CallKind::broadcast:
        return check(ncclBroadcast(in, out, count(call.output), type, call.header.root, comm, stream),
                     "ncclBroadcast");
      case CallKind::all_to_all:
        return exchange(call, type);
      case CallKind::send:
        return check(ncclSend(in, count(call.input), type, call.peer, comm, stream), "ncclSend");
      case CallKind::recv:
        return check(ncclRecv(out, count(call.output), type, call.peer, comm, stream), "ncclRecv");
      case CallKind::barrier:
      case CallKind::split:
        return;  // the host group's part is all of it
    }
  }

  void exchange(const Call& call, ncclDataType_t type) {
    const char* in = static_cast<const char*>(call.input.raw_data());
    char* out = static_cast<char*>(call.output.raw_data());
    const int64_t width = size_of(call.header.dtype);
    check(ncclGroupStart(), "ncclGroupStart");
    for (int peer = 0; peer < size(); ++peer) {
      const auto sent = static_cast<size_t>(call.input_counts[static_cast<size_t>(peer)]);
      const auto received = static_cast<size_t>(call.output_counts[static_cast<size_t>(peer)]);
      check(ncclSend(in, sent, type, peer, channel_->comm, channel_->stream), "ncclSend");
      check(ncclRecv(out, received, type, peer, channel_->comm, channel_->stream), "ncclRecv");
      in += static_cast<int64_t>(sent) * width;
      out += static_cast<int64_t>(received) * width;
    }
    check(ncclGroupEnd(), "ncclGroupEnd");
  }

  std::shared_ptr<Communicator> host_;
  Device device_;
  std::shared_ptr<Channel> channel_;
};

}  // namespace

std::shared_ptr<Communicator> make_communicator(std::shared_ptr<Communicator> host, Device device,
                                                std::chrono::milliseconds timeout) {
  return std::make_shared<NcclCommunicator>(std::move(host), device, timeout);
}

}  // namespace tessera::dist::nccl

#endif
