#include "tools/cuda_sim/runtime/memory/fill_work.h"

#include <cstring>
#include <utility>

#include "tools/cuda_sim/checks/shadow.h"
#include "tools/cuda_sim/runtime/memory/copy_work.h"

namespace tessera::cuda_sim {

namespace {

uint64_t row_bytes(const FillParameters& fill) {
  return fill.width * fill.element_bytes;
}

uint64_t extent(const FillParameters& fill) {
  if (row_bytes(fill) == 0 || fill.height == 0 || fill.depth == 0) return 0;
  return (fill.depth - 1) * fill.slice + (fill.height - 1) * fill.pitch + row_bytes(fill);
}

void fill_row(uint64_t address, const FillParameters& fill) {
  auto* to = reinterpret_cast<std::byte*>(address);
  if (fill.element_bytes == 1) {
    std::memset(to, static_cast<int>(fill.value & 0xff), fill.width);
    return;
  }
  for (uint64_t i = 0; i < fill.width; ++i)
    std::memcpy(to + i * fill.element_bytes, &fill.value, fill.element_bytes);
}

}  // namespace

cudaError_t check_fill(Call& call, const FillParameters& fill) {
  if (fill.element_bytes != 1 && fill.element_bytes != 2 && fill.element_bytes != 4)
    return cudaErrorInvalidValue;
  if (extent(fill) == 0) return cudaSuccess;
  if (fill.to == 0 || fill.to % fill.element_bytes != 0) return cudaErrorInvalidValue;
  if (fill.height > 1 && fill.pitch < row_bytes(fill)) return cudaErrorInvalidValue;
  if (call.runtime.host_memory.find(fill.to) != nullptr) return cudaSuccess;
  return check_device_range(call, fill.to, extent(fill), "the destination");
}

cudaError_t issue_fill(Call& call, Stream& stream, FillParameters fill, bool is_asynchronous) {
  Runtime& runtime = call.runtime;
  if (const cudaError_t error = check_fill(call, fill)) return error;
  if (const cudaError_t error = check_stream_for_work(call, stream)) return error;
  if (stream.capture != nullptr) {
    capture_node(stream, std::move(fill));
    return cudaSuccess;
  }
  if (extent(fill) == 0) return cudaSuccess;
  const bool is_pinned = runtime.owner(fill.to) == nullptr;
  const Operation operation = runtime.issue(call.lock, stream, make_work(runtime, *stream.device, fill));
  if (is_pinned) runtime.host_memory.will_use(operation, fill.to, extent(fill), true);
  if (is_pinned && !is_asynchronous) return runtime.wait(call.lock, *stream.device, operation);
  return stream.device->sticky;
}

void run_fill(Runtime& runtime, const FillParameters& fill, Operation operation) {
  DeviceState* owner = runtime.owner(fill.to);
  if (owner == nullptr) {
    runtime.host_memory.use(operation, fill.to, extent(fill), true);
  } else {
    const DeviceMemory::Range range = owner->device.memory().live_range(fill.to);
    if (range.end == 0 || fill.to + extent(fill) > range.end) {
      runtime.findings.add(Check::use_after_free,
                           runtime.log.describe(operation) + ": its destination was freed meanwhile", Site{});
      return;
    }
  }
  for (uint64_t z = 0; z < fill.depth; ++z)
    for (uint64_t y = 0; y < fill.height; ++y) {
      const uint64_t row = fill.to + z * fill.slice + y * fill.pitch;
      if (owner != nullptr)
        owner->device.shadow().access_range(operation, row, row_bytes(fill), true, "fill");
      fill_row(row, fill);
    }
}

}  // namespace tessera::cuda_sim
