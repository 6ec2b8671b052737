#include "tools/cuda_sim/runtime/memory/copy_work.h"

#include <cstring>
#include <functional>
#include <string>
#include <string_view>

#include "tools/cuda_sim/checks/shadow.h"

namespace tessera::cuda_sim {

namespace {

const char* at(uint64_t address) {
  return reinterpret_cast<const char*>(address);
}

/// Bytes from the first to behind the last that a strided block covers.
uint64_t extent(uint64_t width, uint64_t height, uint64_t depth, uint64_t pitch, uint64_t slice) {
  if (width == 0 || height == 0 || depth == 0) return 0;
  return (depth - 1) * slice + (height - 1) * pitch + width;
}
uint64_t extent_to(const CopyParameters& copy) {
  return extent(copy.width, copy.height, copy.depth, copy.to_pitch, copy.to_slice);
}
uint64_t extent_from(const CopyParameters& copy) {
  return extent(copy.width, copy.height, copy.depth, copy.from_pitch, copy.from_slice);
}

template <class Body>
void for_rows(const CopyParameters& copy, Body body) {
  for (uint64_t z = 0; z < copy.depth; ++z)
    for (uint64_t y = 0; y < copy.height; ++y)
      body(copy.to + z * copy.to_slice + y * copy.to_pitch,
           copy.from + z * copy.from_slice + y * copy.from_pitch);
}

uint64_t hash_source(const CopyParameters& copy) {
  uint64_t hash = 1;
  for_rows(copy, [&](uint64_t, uint64_t from) {
    hash = hash * 31 + std::hash<std::string_view>()(std::string_view(at(from), copy.width));
  });
  return hash | 1;
}

/// Pageable memory is read when the call is made: the card never sees it.
void stage(CopyParameters& copy) {
  copy.staged = std::make_shared<std::vector<std::byte>>(copy.width * copy.height * copy.depth);
  std::byte* to = copy.staged->data();
  for_rows(copy, [&](uint64_t, uint64_t from) {
    std::memcpy(to, at(from), copy.width);
    to += copy.width;
  });
}

bool host_functions_pending(const Runtime& runtime) {
  return runtime.host_functions_issued != runtime.host_functions_ended;
}

}  // namespace

cudaError_t check_device_range(Call& call, uint64_t address, uint64_t bytes, const char* what) {
  if (bytes == 0) return cudaSuccess;
  DeviceState* owner = call.runtime.owner(address);
  if (owner == nullptr) {
    call.report(Check::bounds, std::string(what) + " is no address of a device");
    return cudaErrorInvalidValue;
  }
  const auto nearest = owner->device.memory().find(address);
  if (!nearest || address - nearest->address >= nearest->bytes + 1) {
    call.report(Check::bounds, std::string(what) + " lies in no allocation");
    return cudaErrorInvalidValue;
  }
  const std::string allocation = "allocation " + std::to_string(nearest->number) + " (" + nearest->name +
                                 ", " + std::to_string(nearest->bytes) + " bytes)";
  if (!nearest->is_live) {
    call.report(Check::use_after_free, std::string(what) + " was freed: " + allocation);
    return cudaErrorInvalidValue;
  }
  if (address - nearest->address + bytes > nearest->bytes) {
    call.report(Check::bounds, std::string(what) + ": " + std::to_string(bytes) + " bytes at offset " +
                                   std::to_string(address - nearest->address) + " end behind " + allocation);
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

cudaError_t check_copy(Call& call, const CopyParameters& copy) {
  if (copy.kind < cudaMemcpyHostToHost || copy.kind > cudaMemcpyDefault)
    return cudaErrorInvalidMemcpyDirection;
  if (extent_to(copy) == 0) return cudaSuccess;
  if (copy.to == 0 || copy.from == 0) return cudaErrorInvalidValue;
  if (copy.height > 1 && (copy.to_pitch < copy.width || copy.from_pitch < copy.width))
    return cudaErrorInvalidPitchValue;
  const bool to_device = call.runtime.owner(copy.to) != nullptr;
  const bool from_device = call.runtime.owner(copy.from) != nullptr;
  if (copy.kind != cudaMemcpyDefault) {
    const bool says_to_device = copy.kind == cudaMemcpyHostToDevice || copy.kind == cudaMemcpyDeviceToDevice;
    const bool says_from_device =
        copy.kind == cudaMemcpyDeviceToHost || copy.kind == cudaMemcpyDeviceToDevice;
    if (says_to_device != to_device || says_from_device != from_device) {
      call.report(Check::bounds, std::string("the kind of the copy does not fit its pointers: to the ") +
                                     (to_device ? "device" : "host") + ", from the " +
                                     (from_device ? "device" : "host"));
      return cudaErrorInvalidValue;
    }
  }
  if (to_device)
    if (const cudaError_t error = check_device_range(call, copy.to, extent_to(copy), "the destination"))
      return error;
  if (from_device)
    if (const cudaError_t error = check_device_range(call, copy.from, extent_from(copy), "the source"))
      return error;
  return cudaSuccess;
}

cudaError_t issue_copy(Call& call, Stream& stream, CopyParameters copy, bool is_asynchronous) {
  Runtime& runtime = call.runtime;
  if (const cudaError_t error = check_copy(call, copy)) return error;
  if (const cudaError_t error = check_stream_for_work(call, stream)) return error;
  if (stream.capture != nullptr) {
    capture_node(stream, std::move(copy));
    return cudaSuccess;
  }
  if (extent_to(copy) == 0) return cudaSuccess;
  const bool to_device = runtime.owner(copy.to) != nullptr, from_device = runtime.owner(copy.from) != nullptr;
  const bool to_pinned = !to_device && runtime.host_memory.find(copy.to) != nullptr;
  const bool from_pinned = !from_device && runtime.host_memory.find(copy.from) != nullptr;
  const bool is_staged = !from_device && !from_pinned && to_device;
  // What the stream holds may still write pageable memory that is read here.
  if (is_staged && !is_asynchronous) runtime.wait_for_stream(call.lock, stream);
  if (is_staged) stage(copy);
  const bool is_deferred = runtime.settings.schedule.order != RunOrder::eager;
  if (from_pinned && is_deferred && !host_functions_pending(runtime)) {
    copy.source_hash = hash_source(copy);
    copy.source_writes = runtime.host_memory.writes();
    copy.host_functions = runtime.host_functions_issued;
  }
  // Until the copy has run its destination is undefined: the host sees at once that it came too early.
  const bool poisons = to_pinned && from_device && is_deferred && !host_functions_pending(runtime) &&
                       !runtime.host_memory.is_in_flight(copy.to, extent_to(copy));
  if (poisons)
    for_rows(copy,
             [&](uint64_t to, uint64_t) { std::memset(reinterpret_cast<void*>(to), 0xff, copy.width); });
  const Operation operation = runtime.issue(call.lock, stream, make_work(runtime, *stream.device, copy));
  if (to_pinned) runtime.host_memory.will_use(operation, copy.to, extent_to(copy), true);
  if (from_pinned) runtime.host_memory.will_use(operation, copy.from, extent_from(copy), false);
  const bool touches_host = !to_device || !from_device;
  const bool host_waits = is_asynchronous
                              ? (!to_device && !to_pinned) || (!to_device && !from_device && !from_pinned)
                              : touches_host && !is_staged;
  return host_waits ? runtime.wait(call.lock, *stream.device, operation) : stream.device->sticky;
}

void run_copy(Runtime& runtime, const CopyParameters& copy, Operation operation) {
  DeviceState* to_owner = runtime.owner(copy.to);
  DeviceState* from_owner = runtime.owner(copy.from);
  if (copy.source_hash != 0 && copy.source_writes == runtime.host_memory.writes() &&
      copy.host_functions == runtime.host_functions_issued && hash_source(copy) != copy.source_hash)
    runtime.findings.add(Check::stream_race,
                         runtime.log.describe(operation) +
                             ": the host changed its pinned source after the call and before the copy ran",
                         Site{});
  if (from_owner == nullptr && !copy.staged) {
    runtime.host_memory.use(operation, copy.from, extent_from(copy), false);
  }
  if (to_owner == nullptr) runtime.host_memory.use(operation, copy.to, extent_to(copy), true);
  const auto is_live = [&](DeviceState* owner, uint64_t address, uint64_t bytes, const char* what) {
    const DeviceMemory::Range range = owner->device.memory().live_range(address);
    if (range.end != 0 && address + bytes <= range.end) return true;
    runtime.findings.add(Check::use_after_free,
                         runtime.log.describe(operation) + ": its " + what + " was freed meanwhile", Site{});
    return false;
  };
  if (to_owner != nullptr && !is_live(to_owner, copy.to, extent_to(copy), "destination")) return;
  if (from_owner != nullptr && !is_live(from_owner, copy.from, extent_from(copy), "source")) return;
  const std::byte* staged = copy.staged ? copy.staged->data() : nullptr;
  for_rows(copy, [&](uint64_t to, uint64_t from) {
    if (from_owner != nullptr)
      from_owner->device.shadow().access_range(operation, from, copy.width, false, "copy");
    if (to_owner != nullptr) to_owner->device.shadow().access_range(operation, to, copy.width, true, "copy");
    std::memmove(reinterpret_cast<void*>(to),
                 staged != nullptr ? reinterpret_cast<const char*>(staged) : at(from), copy.width);
    if (staged != nullptr) staged += copy.width;
  });
}

}  // namespace tessera::cuda_sim
