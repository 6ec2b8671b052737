#include "tensor/cuda/runtime/late_errors.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
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
  using Kind = LateCheck::Kind;
  const std::string place = position_of(slot.position, check.shape);
  if (check.limit < 0)
    throw ValueError(
        text(check.where, ": the divisor's element ", slot.position, " is 0; its shape is ", check.shape));
  if (check.ignored || check.kind == Kind::targets)
    throw IndexError(text(check.where, ": target ", slot.value, " at position ", place,
                          " is not a class: they go from 0 to ", check.limit - 1,
                          check.ignored ? text(", and ", *check.ignored, " is ignored") : ""));
  switch (check.kind) {
    case Kind::index_entry:
      throw IndexError(text(check.where, ": value ", slot.value, " at ", place,
                            " of the index tensor at position ", check.entry, " is outside [", -check.limit,
                            ", ", check.limit, ")"));
    case Kind::offsets:
      throw ValueError(text(check.where, ": offset ", slot.value, " of bag ", slot.position,
                            " is out of order: offsets begin with 0, do not fall, and are at most the number "
                            "of ids, ",
                            check.limit));
    case Kind::last_offset:
      throw ValueError(text(check.where, ": the last offset is ", slot.value,
                            ", expected the number of ids, ", check.limit));
    default:
      throw IndexError(text(check.where, ": index ", slot.value, " at position ", place, " is outside [0, ",
                            check.limit, ")"));
  }
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

  TakenSlot take(const LateCheck& what) {
    std::unique_lock lock(mutex_);
    if (checks_.size() == slots) {
      check(cudaStreamSynchronize(current_stream(device_)), "cudaStreamSynchronize");
      throw_first_locked();
    }
    LateErrorSlot* slot = on_device_ + checks_.size();
    const cudaStream_t stream = current_stream(device_);
    checks_.push_back({what, stream});
    const DeviceGuard guard(device_);
    // All bits set: position -1.
    check(cudaMemsetAsync(slot, 0xff, sizeof(LateErrorSlot), stream), "cudaMemsetAsync");
    return {slot, std::move(lock)};
  }

  /// The stream has ended.
  void forget_stream(cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    for (Pending& pending : checks_)
      if (pending.stream == stream) pending.stream = nullptr;
  }

  void release() {
    cudaFree(on_device_);
    cudaFreeHost(on_host_);
  }

  void throw_first() {
    const std::lock_guard lock(mutex_);
    throw_first_locked();
  }

 private:
  void throw_first_locked() {
    if (checks_.empty()) return;
    const std::vector<Pending> checks = std::move(checks_);
    checks_.clear();
    const DeviceGuard guard(device_);
    const cudaStream_t stream = current_stream(device_);
    std::set<cudaStream_t> others;
    for (const Pending& pending : checks)
      if (pending.stream != nullptr && pending.stream != stream) others.insert(pending.stream);
    for (const cudaStream_t other : others) {
      Event event(device_);
      event.record(other);
      event.block(stream);
    }
    check(cudaMemcpyAsync(on_host_, on_device_, checks.size() * sizeof(LateErrorSlot), cudaMemcpyDeviceToHost,
                          stream),
          "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    for (size_t i = 0; i < checks.size(); ++i)
      if (on_host_[i].position >= 0) throw_error(checks[i].what, on_host_[i]);
  }

  struct Pending {
    LateCheck what;
    cudaStream_t stream;  ///< null: one that has ended
  };

  Device device_;
  LateErrorSlot* on_device_;          // until the process ends
  LateErrorSlot* on_host_ = nullptr;  // likewise
  std::mutex mutex_;
  std::vector<Pending> checks_;
};

std::array<std::atomic<LateErrors*>, max_devices> errors{};

void release_at_exit() {
  for (const auto& some : errors)
    if (some != nullptr) some.load()->release();
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

TakenSlot late_error_slot(Device device, const LateCheck& check) {
  return errors_of(device).take(check);
}

void throw_late_errors(Device device) {
  if (LateErrors* some = errors[device.index]) some->throw_first();
}

void forget_late_stream(Device device, cudaStream_t stream) {
  if (LateErrors* some = errors[device.index]) some->forget_stream(stream);
}

}  // namespace tessera::cuda_runtime
