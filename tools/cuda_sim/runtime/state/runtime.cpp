#include "tools/cuda_sim/runtime/state/runtime.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <new>
#include <utility>

#include "tools/cuda_sim/checks/counters.h"
#include "tools/cuda_sim/checks/shadow.h"

namespace tessera::cuda_sim {

namespace {

RuntimeSettings read_environment(std::string& error) {
  try {
    return read_settings([](const char* name) { return std::getenv(name); }, setting_names_in_environment());
  } catch (const std::exception& failure) {
    error = failure.what();
    std::fprintf(stderr, "[cuda_sim] %s\n", error.c_str());
    return {};
  }
}

}  // namespace

Runtime& Runtime::instance() {
  static Runtime* runtime = new Runtime;
  return *runtime;
}

Runtime::Runtime()
    : settings(read_environment(settings_error)),
      scheduler(log, findings, settings.schedule),
      host_memory(log, scheduler, findings) {
  findings.switch_by_text(settings.checks);
  devices_.resize(static_cast<size_t>(settings.devices));
  const char* help = std::getenv("TESSERA_CUDA_SIM_HELP");
  if (help != nullptr && *help == '1') print_settings(std::cerr);
}

DeviceState& Runtime::device(int index) {
  std::unique_ptr<DeviceState>& state = devices_[static_cast<size_t>(index)];
  if (!state) state = std::make_unique<DeviceState>(index, settings.device, findings, log);
  return *state;
}

DeviceState* Runtime::owner(uint64_t address) {
  for (const auto& state : devices_)
    if (state && state->device.memory().contains(address)) return state.get();
  return nullptr;
}

std::vector<Stream*> Runtime::streams_of(const DeviceState& device) {
  std::vector<Stream*> result{const_cast<Stream*>(&device.legacy)};
  for (Stream* stream : per_thread_streams_)
    if (stream->device == &device) result.push_back(stream);
  for (const auto& [handle, stream] : streams)
    if (stream->device == &device) result.push_back(stream.get());
  return result;
}

std::vector<Operation> Runtime::implicit_dependencies(const Stream& stream) {
  std::vector<Operation> result;
  if (!stream.is_blocking) return result;
  if (stream.kind != Stream::Kind::legacy) {
    result.push_back(log.last_of(stream.device->legacy.chain));
  } else {
    for (const Stream* other : streams_of(*stream.device))
      if (other->is_blocking && other != &stream) result.push_back(log.last_of(other->chain));
  }
  return result;
}

Work Runtime::guard(DeviceState& device, Work work) {
  if (!work.run) return work;
  work.run = [&device, run = std::move(work.run), name = work.name](Operation operation) {
    if (device.sticky != cudaSuccess) return true;
    try {
      return run(operation);
    } catch (const KernelFault& fault) {
      device.sticky = static_cast<cudaError_t>(fault.code());
      std::fprintf(stderr, "[cuda_sim] %s ended: %s\n", name.c_str(), fault.what());
    } catch (const std::exception& failure) {
      device.sticky = cudaErrorLaunchFailure;
      std::fprintf(stderr, "[cuda_sim] %s ended: %s\n", name.c_str(), failure.what());
    }
    return true;
  };
  return work;
}

Operation Runtime::issue(Scheduler::Lock& lock, Stream& stream, Work work, std::vector<Operation> after) {
  const std::vector<Operation> implicit = implicit_dependencies(stream);
  after.insert(after.end(), implicit.begin(), implicit.end());
  return scheduler.add(lock, stream.chain, guard(*stream.device, std::move(work)), after);
}

cudaError_t Runtime::wait(Scheduler::Lock& lock, DeviceState& device, Operation operation) {
  if (!scheduler.wait(lock, operation))
    for (const auto& state : devices_)
      if (state && state->sticky == cudaSuccess) state->sticky = cudaErrorLaunchTimeout;
  return device.sticky;
}

cudaError_t Runtime::wait_for_stream(Scheduler::Lock& lock, Stream& stream) {
  DeviceState& device = *stream.device;
  // The legacy stream's end is that of all it waits for.
  for (const Operation operation :
       stream.kind == Stream::Kind::legacy ? implicit_dependencies(stream) : std::vector<Operation>{})
    wait(lock, device, operation);
  return wait(lock, device, log.last_of(stream.chain));
}

cudaError_t Runtime::wait_for_device(Scheduler::Lock& lock, DeviceState& device) {
  std::vector<Operation> last;
  for (const Stream* stream : streams_of(device)) last.push_back(log.last_of(stream->chain));
  for (const Operation operation : last) wait(lock, device, operation);
  device.default_pool.trim(device.default_pool.release_threshold);
  for (const auto& [handle, pool] : pools)
    if (pool->device == device.index()) pool->trim(pool->release_threshold);
  return device.sticky;
}

void Runtime::reset(Scheduler::Lock& lock, DeviceState& device) {
  wait_for_device(lock, device);
  device.sticky = cudaSuccess;
  DeviceMemory& memory = device.device.memory();
  for (const auto& [address, allocation] : memory.live()) {
    if (kernels.is_variable(device, address)) continue;
    memory.release(address, 0);
    device.device.shadow().forget(address, allocation.bytes);
  }
  std::vector<const void*> handles;
  for (const auto& [handle, stream] : streams)
    if (stream->device == &device) handles.push_back(handle);
  for (const void* handle : handles) streams.remove(handle);
  handles.clear();
  for (const auto& [handle, event] : events)
    if (event->device == device.index()) handles.push_back(handle);
  for (const void* handle : handles) events.remove(handle);
  device.pool_of.clear();
  device.default_pool = MemoryPool{};
  device.default_pool.device = device.index();
  device.default_pool.is_default = true;
  device.pool = &device.default_pool;
  device.peers.clear();
  device.limits.clear();
}

void Runtime::report_leaks() {
  for (const auto& state : devices_) {
    if (!state || state->sticky != cudaSuccess) continue;  // a lost device frees nothing
    uint64_t bytes = 0, count = 0;
    std::string first;
    for (const auto& [address, allocation] : state->device.memory().live()) {
      if (kernels.is_variable(*state, address)) continue;
      bytes += allocation.bytes;
      if (count++ == 0)
        first = "; the first is allocation " + std::to_string(allocation.number) + ", " + allocation.name +
                ", " + std::to_string(allocation.bytes) + " bytes";
    }
    if (count != 0)
      findings.add(Check::leak,
                   std::to_string(count) + " allocations with " + std::to_string(bytes) +
                       " bytes were not freed on device " + std::to_string(state->index()) + first,
                   Site{});
  }
  const auto report = [this](size_t count, const char* what, const char* verb) {
    if (count != 0)
      findings.add(Check::leak, std::to_string(count) + " " + what + " were not " + verb, Site{});
  };
  size_t pinned = 0, registered = 0;
  for (const auto& [begin, block] : host_memory.blocks()) (block.is_registered ? registered : pinned) += 1;
  report(pinned, "blocks of pinned host memory", "freed");
  report(registered, "ranges of registered host memory", "unregistered");
  report(streams.size(), "streams", "destroyed");
  report(events.size(), "events", "destroyed");
  report(graphs.size(), "graphs", "destroyed");
  report(graph_execs.size(), "executable graphs", "destroyed");
}

void Runtime::write_counters() const {
  std::ofstream file(settings.counters_file, std::ios::app);
  for (const auto& state : devices_)
    if (state) state->device.counters().write_json(file, state->index());
  file.flush();
  if (!file)
    std::fprintf(stderr, "[cuda_sim] the counts could not be written to %s\n",
                 settings.counters_file.c_str());
}

bool Runtime::finish() {
  Scheduler::Lock lock(mutex);
  if (!settings_error.empty()) return false;
  scheduler.wait_for_all(lock);
  report_leaks();
  if (settings.prints_counters) {
    for (const auto& state : devices_)
      if (state) state->device.counters().print(std::cerr);
    std::cerr.flush();
  }
  if (!settings.counters_file.empty()) write_counters();
  const uint64_t count = findings.count();
  if (count != 0) std::fprintf(stderr, "[cuda_sim] %llu findings\n", static_cast<unsigned long long>(count));
  return count != 0;
}

}  // namespace tessera::cuda_sim
