// The state of the simulated CUDA runtime of a process.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tools/cuda_sim/checks/findings.h"
#include "tools/cuda_sim/runtime/configuration/runtime_settings.h"
#include "tools/cuda_sim/runtime/graph/capture.h"
#include "tools/cuda_sim/runtime/graph/graph.h"
#include "tools/cuda_sim/runtime/schedule/scheduler.h"
#include "tools/cuda_sim/runtime/state/device_state.h"
#include "tools/cuda_sim/runtime/state/event.h"
#include "tools/cuda_sim/runtime/state/handle_table.h"
#include "tools/cuda_sim/runtime/state/host_memory.h"
#include "tools/cuda_sim/runtime/state/kernels.h"

namespace tessera::cuda_sim {

class Runtime {
 public:
  /// Made at the first call; never destroyed, since a program's own destructors may still call.
  static Runtime& instance();

  std::mutex mutex;            ///< held by every call
  std::string settings_error;  ///< of the environment; every call fails then
  RuntimeSettings settings;
  Findings findings;
  OperationLog log;
  Scheduler scheduler;
  HostMemory host_memory;
  Kernels kernels;
  HandleTable<Stream> streams;
  HandleTable<Event> events;
  HandleTable<Graph> graphs;
  HandleTable<GraphExec> graph_execs;
  HandleTable<CaptureSession> captures;
  HandleTable<MemoryPool> pools;
  /// Host functions run without the lock.
  std::atomic<uint64_t> host_functions_issued = 0, host_functions_ended = 0;

  /// A device, opened when it is used first. `index` is in range.
  DeviceState& device(int index);
  int device_count() const { return settings.devices; }
  int driver_version() const { return settings.driver != 0 ? settings.driver : CUDART_VERSION; }
  /// Drivers carry out programs of their major version and of earlier ones (CUDA Compatibility, "Minor
  /// Version Compatibility").
  bool driver_is_sufficient() const { return driver_version() / 1000 >= CUDART_VERSION / 1000; }
  /// The opened device at `index`, or null.
  DeviceState* opened(int index) { return devices_[static_cast<size_t>(index)].get(); }
  /// The device of which the memory contains an address; null: the host's.
  DeviceState* owner(uint64_t address);

  /// What an operation on `stream` must wait for besides the stream's own ones: the legacy default stream and
  /// the blocking streams wait for each other (CUDA Runtime API, "Stream synchronization behavior").
  std::vector<Operation> implicit_dependencies(const Stream& stream);
  /// Issues work on a stream. Once the device is lost it does nothing.
  Operation issue(Scheduler::Lock& lock, Stream& stream, Work work, std::vector<Operation> after = {});
  /// Gives work what every operation of a device has: it is left out on a lost device, and a fault loses it.
  Work guard(DeviceState& device, Work work);
  /// Waits, and gives the sticky error that came out of it. A deadlock loses all devices.
  cudaError_t wait(Scheduler::Lock& lock, DeviceState& device, Operation operation);
  cudaError_t wait_for_stream(Scheduler::Lock& lock, Stream& stream);
  cudaError_t wait_for_device(Scheduler::Lock& lock, DeviceState& device);
  /// Every stream of a device, the default ones too.
  std::vector<Stream*> streams_of(const DeviceState& device);
  void add_per_thread_stream(Stream* stream) { per_thread_streams_.push_back(stream); }
  void remove_per_thread_stream(Stream* stream) { std::erase(per_thread_streams_, stream); }
  /// Ends the device's life as cudaDeviceReset does.
  void reset(Scheduler::Lock& lock, DeviceState& device);
  /// At the end of the process: runs what is left, reports leaks and counters. True: there were findings.
  bool finish();

 private:
  Runtime();
  void report_leaks();
  void write_counters() const;
  std::vector<std::unique_ptr<DeviceState>> devices_;
  std::vector<Stream*> per_thread_streams_;
};

}  // namespace tessera::cuda_sim
