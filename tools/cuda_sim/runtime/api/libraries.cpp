// The seam for libraries that stand in for CUDA's.
#include <cuda_runtime_api.h>

#include "tools/cuda_sim/runtime/memory/copy_work.h"
#include "tools/cuda_sim/runtime/memory/library_work.h"
#include "tools/cuda_sim/runtime/state/call.h"
#include "tools/cuda_sim/runtime/tessera_cuda_sim.h"

using namespace tessera::cuda_sim;

namespace {

/// Leaves the ranks when the thread ends.
struct RankThread {
  bool is_on = false;
  void set(bool on) {
    Runtime& runtime = Runtime::instance();
    const Scheduler::Lock lock(runtime.mutex);
    if (on == is_on) return;
    is_on = on;
    on ? runtime.scheduler.enter_rank_thread() : runtime.scheduler.leave_rank_thread();
  }
  ~RankThread() { set(false); }
};
thread_local RankThread rank_thread;

}  // namespace

extern "C" {

int tessera_cuda_sim_operation(const char* name, void* stream_handle, const tessera_cuda_sim_range* ranges,
                               size_t count, void (*run)(void*), void (*release)(void*), void* data) {
  LibraryParameters library{.name = name, .ranges = {}, .data = {data, release}, .run = run};
  return api_call(name, [&](Call& call) {
    Stream* stream = call.stream(static_cast<cudaStream_t>(stream_handle));
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    for (size_t i = 0; i < count; ++i) {
      const auto address = reinterpret_cast<uint64_t>(ranges[i].pointer);
      if (const cudaError_t error = check_device_range(call, address, ranges[i].bytes, "an operand"))
        return error;
      library.ranges.push_back({address, ranges[i].bytes, ranges[i].writes != 0});
    }
    if (const cudaError_t error = check_stream_for_work(call, *stream)) return error;
    if (stream->capture != nullptr) {
      capture_node(*stream, std::move(library));
      return cudaSuccess;
    }
    call.runtime.issue(call.lock, *stream, make_work(call.runtime, *stream->device, std::move(library)));
    return cudaSuccess;
  });
}

int tessera_cuda_sim_meeting(const char* name, void* stream_handle, uint32_t* number,
                             const tessera_cuda_sim_callbacks* callbacks, void* data) {
  const std::shared_ptr<void> owned(data, callbacks->release);
  const auto [run, partners, explain, release] = *callbacks;
  if (explain == nullptr) rank_thread.set(true);
  return api_call(name, [&](Call& call) {
    Stream* stream = call.stream(static_cast<cudaStream_t>(stream_handle));
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = check_stream_for_work(call, *stream)) return error;
    if (stream->capture != nullptr) {
      stream->capture->is_invalid = true;
      call.report(Check::capture, "collectives in a capture are not simulated; the capture is lost");
      return cudaErrorNotSupported;
    }
    Work work{.name = name};
    work.run = [owned, run](Operation operation) { return run(owned.get(), operation) != 0; };
    if (explain != nullptr)
      work.elsewhere = [owned, explain] {
        std::string text(1 << 14, '\0');
        text.resize(explain(owned.get(), text.data(), text.size()));
        return text;
      };
    work.partners = [owned, partners](Operation) {
      Partners result;
      int missing = 0;
      constexpr size_t most = 1024;
      result.issued.resize(most);
      result.issued.resize(partners(owned.get(), result.issued.data(), most, &missing));
      result.some_not_issued = missing != 0;
      return result;
    };
    *number = call.runtime.issue(call.lock, *stream, std::move(work));
    call.runtime.scheduler.announce_change();
    return cudaSuccess;
  });
}

int tessera_cuda_sim_access(uint32_t operation, const void* pointer, size_t bytes, int writes,
                            const char* what) {
  // An operation runs with the lock held.
  return access_device(Runtime::instance(), operation, reinterpret_cast<uint64_t>(pointer), bytes,
                       writes != 0, what)
             ? 1
             : 0;
}

uint64_t tessera_cuda_sim_patience() {
  return static_cast<uint64_t>(Runtime::instance().settings.schedule.patience.count());
}

void tessera_cuda_sim_rank_thread(int on) {
  rank_thread.set(on != 0);
}

void tessera_cuda_sim_announce() {
  Runtime& runtime = Runtime::instance();
  const Scheduler::Lock lock(runtime.mutex);
  runtime.scheduler.announce_change();
}

void tessera_cuda_sim_report(const char* check, const char* message) {
  Findings& findings = Runtime::instance().findings;
  for (int i = 0; i < static_cast<int>(Check::count); ++i)
    if (check_name(static_cast<Check>(i)) == check) findings.add(static_cast<Check>(i), message, Site{});
}

}  // extern "C"
