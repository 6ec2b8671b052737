#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "dist/comm/interface/communicator.h"

/// What NCCL gives: a group's handle, which works in the background. Compiled where CUDA and NCCL were found.
namespace tessera::dist::nccl {

using Clock = std::chrono::steady_clock;

/// Throw CommunicationError, with the words of CUDA or NCCL, unless the call worked or is being worked on.
void check(cudaError_t status, const char* what);
void check(ncclResult_t status, const char* what);

/// A CUDA event, which frees itself.
class Event {
 public:
  Event() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  bool is_over() const;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// A call on its way through a channel. It keeps its tensors until NCCL's kernels have ended.
struct Operation {
  explicit Operation(CheckedCall checked);

  CheckedCall call;
  std::vector<int64_t> output_counts, input_counts;  ///< of an all_to_all
  Event computed;                                    ///< what the computing stream had to do before
  Event done;
  bool is_over = false;
};

/// The id that the ranks of a channel come together by: made by one of them, on its way to the others.
struct ChannelId {
  Tensor bytes;
  Work arrival;
};
/// Room for an id; on the rank that `makes` it, a new one.
ChannelId make_id(bool makes);

/// A handle of NCCL's (an ncclComm_t that never blocks) and the stream that its kernels run on. Nothing here
/// waits: the handle comes together, and calls go to NCCL one after another, while `advance` is called.
/// Calls are over in the order in which they were added.
class Channel {
 public:
  /// A channel of `size` ranks, of which this is number `rank`, on the thread's current GPU.
  Channel(int size, int rank, ChannelId id);
  /// Aborts what was not closed.
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  void add(std::shared_ptr<Operation> operation) { waiting_.push_back(std::move(operation)); }
  /// Does what can be done without waiting. Throws CommunicationError where NCCL has failed.
  void advance();
  /// Whether the ranks have come together, and whether nothing is on its way.
  bool is_ready();
  bool is_aborted() const { return is_aborted_; }
  bool is_idle() const { return waiting_.empty() && !issued_ && running_.empty(); }
  /// Ends it together with the other ranks; aborts it where that takes until `deadline`.
  void close(Clock::time_point deadline) noexcept;
  /// Ends NCCL's kernels, whatever they wait for. Calls that were not over never are.
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
  std::shared_ptr<Operation> issued_;  ///< NCCL has it, but may not have put it on the stream yet
};

}  // namespace tessera::dist::nccl
