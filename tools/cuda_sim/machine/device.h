// One simulated card: memory, shadow, findings, settings.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tools/cuda_sim/checks/findings.h"
#include "tools/cuda_sim/checks/operation_order.h"
#include "tools/cuda_sim/machine/running/host_threads.h"
#include "tools/cuda_sim/memory/device_memory.h"

namespace tessera::cuda_sim {

class GlobalShadow;
class CounterTable;

/// How a card behaves. Read from the environment by runtime/settings.cpp.
struct Settings {
  uint64_t memory_bytes = uint64_t{4} << 30;
  int compute_capability = 90;
  int multiprocessors = 4;
  int host_threads = 0;  ///< 0: as many as the process may use
  uint64_t seed = 1;     ///< of every random order
  enum class BlockOrder : uint8_t { ascending, descending, random } block_order = BlockOrder::ascending;
  bool counts = true;  ///< sectors, bank conflicts, operations
  /// Warp instructions after which a launch that does nothing but wait in loops has a deadlock.
  uint64_t waiting_limit = uint64_t{1} << 29;
  /// Warp instructions of one block between two barriers or ends of warps after which it never ends.
  uint64_t watchdog_limit = uint64_t{1} << 34;
};

/// What ends a kernel on a card. `code` is the cudaError_t that sticks.
class KernelFault : public std::runtime_error {
 public:
  KernelFault(int code, const std::string& what) : std::runtime_error(what), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

class Device {
 public:
  Device(int index, const Settings& settings, Findings& findings, const OperationOrder& order);
  ~Device();

  int index() const { return index_; }
  const Settings& settings() const { return settings_; }
  DeviceMemory& memory() { return memory_; }
  GlobalShadow& shadow() { return *shadow_; }
  Findings& findings() { return *findings_; }
  const OperationOrder& order() const { return *order_; }
  CounterTable& counters() { return *counters_; }
  HostThreads& host_threads() { return host_threads_; }
  /// Writes what a kernel prints, to stdout where nothing else was set. Thread-safe.
  void print(std::string_view text);
  void set_printer(std::function<void(std::string_view)> printer);

  /// A kernel did what ends it on a card. Checks report it and go on with the other lanes; the launch ends
  /// with the first of these codes (a cudaError_t). Thread-safe.
  void set_fault(int code) {
    int none = 0;
    fault_.compare_exchange_strong(none, code);
  }
  /// The code since the last call, 0 for none.
  int take_fault() { return fault_.exchange(0); }

 private:
  int index_;
  Settings settings_;
  DeviceMemory memory_;
  std::unique_ptr<GlobalShadow> shadow_;
  Findings* findings_;
  const OperationOrder* order_;
  std::unique_ptr<CounterTable> counters_;
  HostThreads host_threads_;
  std::mutex printer_mutex_;
  std::function<void(std::string_view)> printer_;
  std::atomic<int> fault_ = 0;
};

}  // namespace tessera::cuda_sim
