#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <unistd.h>

#include "tools/cuda_sim/checks/counters.h"
#include "tools/cuda_sim/checks/shadow.h"
#include "tools/cuda_sim/runtime/state/call.h"
#include "tools/cuda_sim/runtime/tessera_cuda_sim.h"

using namespace tessera::cuda_sim;

namespace {

/// Runs as the library is unloaded, after the program's own destructors.
__attribute__((destructor)) void at_exit() {
  Runtime& runtime = Runtime::instance();
  const bool has_findings = runtime.finish();
  if (has_findings && runtime.settings.exit_code != 0) {
    std::fflush(nullptr);
    _exit(runtime.settings.exit_code);
  }
}

}  // namespace

extern "C" {

uint64_t tessera_cuda_sim_findings() {
  return Runtime::instance().findings.count();
}

uint64_t tessera_cuda_sim_findings_of(const char* check) {
  uint64_t count = 0;
  for (const Finding& finding : Runtime::instance().findings.all())
    if (check_name(finding.check) == check) count += finding.count;
  return count;
}

void tessera_cuda_sim_clear_findings() {
  Runtime::instance().findings.clear();
}

size_t tessera_cuda_sim_text(char* text, size_t bytes) {
  std::string all;
  for (const Finding& finding : Runtime::instance().findings.all()) {
    all += std::string(check_name(finding.check)) + ": " + finding.message;
    const Site& site = finding.site;
    if (!site.kernel.empty())
      all += " [" + site.kernel + " " + site.file + ":" + std::to_string(site.line) + "]";
    all += '\n';
  }
  if (text != nullptr && bytes != 0) {
    const size_t copied = std::min(bytes - 1, all.size());
    std::memcpy(text, all.data(), copied);
    text[copied] = '\0';
  }
  return all.size();
}

void tessera_cuda_sim_print(int on) {
  Runtime::instance().findings.prints = on != 0;
}

int tessera_cuda_sim_forget(const void* pointer, size_t bytes, void* stream_handle) {
  return api_call("tessera_cuda_sim_forget", [&](Call& call) {
    const auto address = reinterpret_cast<uint64_t>(pointer);
    Stream* stream = call.stream(static_cast<cudaStream_t>(stream_handle));
    DeviceState* owner = call.runtime.owner(address);
    if (owner == nullptr || stream == nullptr) return cudaErrorInvalidValue;
    if (stream->capture != nullptr) return cudaSuccess;
    const DeviceMemory::Range range = owner->device.memory().live_range(address);
    if (range.end == 0 || address + bytes > range.end) return cudaErrorInvalidValue;
    call.runtime.issue(call.lock, *stream,
                       {.name = "reuse of a block", .run = [owner, address, bytes](Operation operation) {
                          // Every earlier use must have ended: to the checks it is a write of all bytes.
                          owner->device.shadow().access_range(operation, address, bytes, true, "reuse");
                          owner->device.shadow().forget(address, bytes);
                          std::memset(reinterpret_cast<void*>(address), 0xff, bytes);
                          return true;
                        }});
    return cudaSuccess;
  });
}

void tessera_cuda_sim_name(const void* pointer, const char* name) {
  api_call("tessera_cuda_sim_name", [&](Call& call) {
    const auto address = reinterpret_cast<uint64_t>(pointer);
    DeviceState* owner = call.runtime.owner(address);
    if (owner == nullptr || name == nullptr) return cudaErrorInvalidValue;
    owner->device.memory().rename(address, name);
    return cudaSuccess;
  });
}

uint64_t tessera_cuda_sim_counter(const char* kernel, const char* counter) {
  Runtime& runtime = Runtime::instance();
  const Scheduler::Lock lock(runtime.mutex);
  const auto names = counter_names();
  const auto row = std::ranges::find_if(
      names, [&](const CounterName& one) { return std::strcmp(one.name, counter) == 0; });
  if (row == names.end()) return 0;
  uint64_t sum = 0;
  for (int i = 0; i < runtime.device_count(); ++i) {
    DeviceState* device = runtime.opened(i);
    if (device == nullptr) continue;
    for (const auto& [name, counters] : device->device.counters().all())
      if (name.find(kernel) != std::string::npos) sum += counters.*(row->member);
  }
  return sum;
}

void tessera_cuda_sim_clear_counters() {
  Runtime& runtime = Runtime::instance();
  const Scheduler::Lock lock(runtime.mutex);
  for (int i = 0; i < runtime.device_count(); ++i)
    if (DeviceState* device = runtime.opened(i)) device->device.counters().clear();
}

}  // extern "C"
