#pragma once  // internal

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "dist/comm/interface/communicator.h"

/// NCCL's handle of a group, which works in the background. Compiled where CUDA and NCCL were found.
namespace tessera::dist::nccl {

using Clock = std::chrono::steady_clock;

/// Throw CommunicationError with CUDA's or NCCL's message, unless the call succeeded or is in progress.
void check(cudaError_t status, const char* what);
void check(ncclResult_t status, const char* what);

/// A CUDA event, destroyed with its object.
class CudaEvent {
 public:
  CudaEvent() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate"); }
  ~CudaEvent() { cudaEventDestroy(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  bool is_over() const;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// A call in a channel. It keeps its tensors until NCCL's kernels have ended.
struct Operation {
  explicit Operation(CheckedCall checked);

  CheckedCall call;
  std::vector<int64_t> output_counts, input_counts;  ///< of an all_to_all
  CudaEvent computed;                                ///< the work of the computing stream before the call
  CudaEvent done;
  bool is_over = false;
};

/// The id by which the ranks of a channel find each other: made by one of them, sent to the others.
struct ChannelId {
  Tensor bytes;
  Work arrival;
};
/// A new id on the rank that `makes` it; memory for it on the others.
ChannelId make_id(bool makes);

/// A handle of NCCL's (an ncclComm_t that never blocks) and the stream that its kernels run on. Nothing here
/// waits: `advance` connects the handle and passes calls to NCCL one after another. Calls are over in the
/// order in which they were added.
class Channel {
 public:
  /// A channel of `size` ranks, of which this is number `rank`, on the thread's current GPU.
  Channel(int size, int rank, ChannelId id);
  /// Aborts the handle unless it was closed.
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  void add(std::shared_ptr<Operation> operation) { waiting_.push_back(std::move(operation)); }
  /// Does what is possible without waiting. Throws CommunicationError where NCCL has failed.
  void advance();
  /// Whether the ranks are connected and NCCL can take a call.
  bool is_ready();
  bool is_aborted() const { return is_aborted_; }
  /// Whether no call is in flight.
  bool is_idle() const { return waiting_.empty() && !issued_ && running_.empty(); }
  /// Ends the handle together with the other ranks; aborts it where that takes until `deadline`.
  void close(Clock::time_point deadline) noexcept;
  /// Ends NCCL's kernels, whatever they wait for. Calls in flight never complete.
  void abort() noexcept;

 private:
  void begin();
  void issue(const Operation& operation);
  void exchange(const Operation& operation);

  int size_, rank_;
  ChannelId id_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  bool is_aborted_ = false;
  std::deque<std::shared_ptr<Operation>> waiting_, running_;
  std::shared_ptr<Operation> issued_;  ///< passed to NCCL, but perhaps not on the stream yet
};

}  // namespace tessera::dist::nccl
