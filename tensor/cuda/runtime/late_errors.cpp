#include "tensor/cuda/runtime/late_errors.h"

#include <array>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "tensor/cuda/memory/device_allocator.h"
#include "tensor/cuda/runtime/check.h"
#include "tensor/cuda/runtime/device_guard.h"
#include "tensor/cuda/runtime/stream.h"
#include "tensor/error.h"

namespace tessera::cuda_runtime {
namespace {

constexpr size_t slots = 256;
constexpr int max_devices = 128;

/// The coordinates of an element of a contiguous tensor: "(1, 0, 2)".
std::string position_of(int64_t element, const Shape& shape) {
  Shape position = shape;
  for (int i = shape.ndim() - 1; i >= 0; --i) {
    position[i] = element % shape[i];
    element /= shape[i];
  }
  return to_string(position);
}

[[noreturn]] void throw_error(const LateCheck& check, const LateErrorSlot& slot) {
  if (check.limit < 0)
    throw ValueError(
        text(check.where, ": the divisor's element at ", position_of(slot.position, check.shape), " is 0"));
  if (check.ignored)
    throw IndexError(text(check.where, ": target ", slot.value, " at position ",
                          position_of(slot.position, check.shape), " is not a class: they go from 0 to ",
                          check.limit - 1, ", and ", *check.ignored, " is ignored"));
  throw IndexError(text(check.where, ": index ", slot.value, " at position ",
                        position_of(slot.position, check.shape), " is outside [0, ", check.limit, ")"));
}

class LateErrors {
 public:
  explicit LateErrors(Device device)
      : device_(device),
        on_device_(
            static_cast<LateErrorSlot*>(device_allocate_apart(device, slots * sizeof(LateErrorSlot)))) {
    const DeviceGuard guard(device);
    check(cudaHostAlloc(reinterpret_cast<void**>(&on_host_), slots * sizeof(LateErrorSlot),
                        cudaHostAllocPortable),
          "cudaHostAlloc");
  }

  LateErrorSlot* take(const LateCheck& what) {
    if (count() == slots) {
      check(cudaStreamSynchronize(current_stream(device_)), "cudaStreamSynchronize");
      throw_first();
    }
    const std::lock_guard lock(mutex_);
    LateErrorSlot* slot = on_device_ + checks_.size();
    checks_.push_back(what);
    const DeviceGuard guard(device_);
    // All bits set: position -1.
    check(cudaMemsetAsync(slot, 0xff, sizeof(LateErrorSlot), current_stream(device_)), "cudaMemsetAsync");
    return slot;
  }

  void release() {
    cudaFree(on_device_);
    cudaFreeHost(on_host_);
  }

  void throw_first() {
    const std::lock_guard lock(mutex_);
    if (checks_.empty()) return;
    const std::vector<LateCheck> checks = std::move(checks_);
    checks_.clear();
    const DeviceGuard guard(device_);
    const cudaStream_t stream = current_stream(device_);
    check(cudaMemcpyAsync(on_host_, on_device_, checks.size() * sizeof(LateErrorSlot), cudaMemcpyDeviceToHost,
                          stream),
          "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    for (size_t i = 0; i < checks.size(); ++i)
      if (on_host_[i].position >= 0) throw_error(checks[i], on_host_[i]);
  }

 private:
  size_t count() {
    const std::lock_guard lock(mutex_);
    return checks_.size();
  }

  Device device_;
  LateErrorSlot* on_device_;          // until the process ends
  LateErrorSlot* on_host_ = nullptr;  // likewise
  std::mutex mutex_;
  std::vector<LateCheck> checks_;
};

std::array<LateErrors*, max_devices> errors{};

void release_at_exit() {
  for (LateErrors* some : errors)
    if (some != nullptr) some->release();
}

/// Made by the first check of a device; never destroyed.
LateErrors& errors_of(Device device) {
  static std::array<std::once_flag, max_devices> made;
  std::call_once(made[device.index], [&] {
    static const int registered = std::atexit(&release_at_exit);
    static_cast<void>(registered);
    errors[device.index] = new LateErrors(device);
  });
  return *errors[device.index];
}

}  // namespace

LateErrorSlot* late_error_slot(Device device, const LateCheck& check) {
  return errors_of(device).take(check);
}

void throw_late_errors(Device device) {
  errors_of(device).throw_first();
}

}  // namespace tessera::cuda_runtime
