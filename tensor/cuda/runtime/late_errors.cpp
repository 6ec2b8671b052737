#include "tensor/cuda/runtime/late_errors.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tensor/cuda/memory/device_allocator.h"
#include "tensor/cuda/runtime/check.h"
#include "tensor/cuda/runtime/device_guard.h"
#include "tensor/cuda/runtime/graph.h"
#include "tensor/cuda/runtime/stream.h"
#include "tensor/error.h"

namespace tessera::cuda_runtime {
namespace {

/// Of checks that run once; as many follow for those of graphs.
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
    case Kind::weights:
      throw ValueError(text(check.where, ": expected finite weights of at least 0, got ",
                            std::bit_cast<double>(slot.value), " at ", place));
    case Kind::positive_weights:
      throw ValueError(text(check.where, ": row ", slot.position, " has ", slot.value,
                            " positive weights, too few for what is drawn, expected at least ", check.limit));
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
            static_cast<LateErrorSlot*>(device_allocate_apart(device, 2 * slots * sizeof(LateErrorSlot)))) {
    const DeviceGuard guard(device);
    check(cudaHostAlloc(reinterpret_cast<void**>(&on_host_), 2 * slots * sizeof(LateErrorSlot),
                        cudaHostAllocPortable),
          "cudaHostAlloc");
    clear(slots, slots);
  }

  TakenSlot take(const LateCheck& what) {
    std::unique_lock lock(mutex_);
    const cudaStream_t stream = current_stream(device_);
    require_graph_stream(stream, what.where);
    if (is_capturing(stream)) return {on_device_ + slots + take_recorded(what, stream), std::move(lock)};
    if (checks_.size() == slots) {
      check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
      throw_first_locked();
      require<DeviceError>(checks_.size() < slots, what.where, ": the ", slots, " checks of values on ",
                           device_, " belong to streams that record graphs, and there is no room for more");
    }
    size_t place = 0;
    while (is_taken_[place]) ++place;
    is_taken_[place] = true;
    LateErrorSlot* slot = on_device_ + place;
    checks_.push_back({what, stream, place});
    const DeviceGuard guard(device_);
    // All bits set: position -1.
    check(cudaMemsetAsync(slot, 0xff, sizeof(LateErrorSlot), stream), "cudaMemsetAsync");
    return {slot, std::move(lock)};
  }

  /// The stream has ended, and its recording with it.
  void forget_stream(cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    for (Pending& pending : checks_)
      if (pending.stream == stream) pending.stream = nullptr;
    for (Recorded& recorded : recorded_) {
      if (recorded.launched_on == stream) recorded.launched_on = nullptr;
      if (recorded.recorded_by == stream) end(recorded);
    }
    drop_free();
  }

  /// Of the checks that the stream recorded, the new ones are forgotten, or the others are.
  void end_recording(cudaStream_t stream, bool keeps_new) {
    const std::lock_guard lock(mutex_);
    for (Recorded& recorded : recorded_) {
      if (recorded.recorded_by != stream) continue;
      if (recorded.is_new != keeps_new) end(recorded);
      recorded.is_new = false;
    }
    drop_free();
  }

  std::unique_lock<std::mutex> launch(cudaStream_t recorded_by, cudaStream_t stream) {
    std::unique_lock lock(mutex_);
    for (Recorded& recorded : recorded_)
      if (recorded.recorded_by == recorded_by && !recorded.has_ended) {
        recorded.launched_on = stream;
        recorded.was_launched = true;
      }
    return lock;
  }

  void release() {
    own_stream_.reset();
    cudaFree(on_device_);
    cudaFreeHost(on_host_);
  }

  void throw_first() {
    const std::lock_guard lock(mutex_);
    throw_first_locked();
  }

 private:
  /// A check in a graph. Its place in the list is that of its slot.
  struct Recorded {
    LateCheck what;
    cudaStream_t recorded_by;  ///< null: the slot is free
    cudaStream_t launched_on = nullptr;
    bool is_new = true;         ///< of a recording that has not ended
    bool was_launched = false;  ///< it may have found something
    bool has_ended = false;     ///< its graph is gone; what it found is not
  };
  struct Pending {
    LateCheck what;
    cudaStream_t stream;  ///< null: one that has ended
    size_t place;         ///< of its slot
  };

  /// The graph has no such check any more, and its launches have ended. What they have found is still thrown.
  void end(Recorded& recorded) {
    if (recorded.was_launched && has_found(static_cast<size_t>(&recorded - recorded_.data())))
      recorded.has_ended = true;
    else
      recorded.recorded_by = nullptr;
  }
  /// Whether launches that have ended have written to the slot of a recorded check.
  bool has_found(size_t place) {
    LateErrorSlot* const slot = on_host_ + slots + place;
    slot->position = -1;
    try {
      const Stream& stream = own_stream();
      const DeviceGuard guard(device_);
      check(cudaMemcpyAsync(slot, on_device_ + slots + place, sizeof(LateErrorSlot), cudaMemcpyDeviceToHost,
                            stream.get()),
            "cudaMemcpyAsync");
      stream.synchronize();
    } catch (const Error&) {
      return false;  // of a lost device; the next use of it says so
    }
    return slot->position >= 0;
  }
  void drop_free() {
    while (!recorded_.empty() && recorded_.back().recorded_by == nullptr) recorded_.pop_back();
  }

  size_t take_recorded(const LateCheck& what, cudaStream_t stream) {
    size_t place = 0;
    while (place < recorded_.size() && recorded_[place].recorded_by != nullptr) ++place;
    require<DeviceError>(place < slots, what.where, ": the graphs of ", device_, " have ", slots,
                         " checks of values on the device, and no room for more");
    if (place == recorded_.size())
      recorded_.push_back({what, stream});
    else {
      recorded_[place] = {what, stream};
      clear(slots + place, 1);  // an error that was not asked for
    }
    return place;
  }

  /// A stream that records nothing: the current one may record a graph.
  const Stream& own_stream() {
    if (!own_stream_) own_stream_.emplace(device_);
    return *own_stream_;
  }
  /// Sets slots to "none".
  void clear(size_t first, size_t count) {
    const Stream& stream = own_stream();
    const DeviceGuard guard(device_);
    check(cudaMemsetAsync(on_device_ + first, 0xff, count * sizeof(LateErrorSlot), stream.get()),
          "cudaMemsetAsync");
    stream.synchronize();
  }

  /// Checks of streams that record a graph at present stay: they cannot be waited for.
  void throw_first_locked() {
    if (checks_.empty() && recorded_.empty()) return;
    const DeviceGuard guard(device_);
    const cudaStream_t stream = current_stream(device_);
    std::set<cudaStream_t> recording;
    const auto is_left = [&](cudaStream_t of) { return recording.contains(of); };
    std::set<cudaStream_t> others;
    for (const Pending& pending : checks_) others.insert(pending.stream);
    for (const Recorded& recorded : recorded_) others.insert(recorded.launched_on);
    for (const cudaStream_t other : others) {
      if (other == nullptr || other == stream) continue;
      if (is_capturing(other)) {
        recording.insert(other);
        continue;
      }
      Event event(device_);
      event.record(other);
      event.block(stream);
    }
    std::vector<Pending> checks;
    for (const Pending& pending : std::exchange(checks_, {}))
      (is_left(pending.stream) ? checks_ : checks).push_back(pending);
    for (const Pending& pending : checks) is_taken_[pending.place] = false;
    const auto copy = [&](size_t first, size_t count) {
      if (count == 0) return;
      check(cudaMemcpyAsync(on_host_ + first, on_device_ + first, count * sizeof(LateErrorSlot),
                            cudaMemcpyDeviceToHost, stream),
            "cudaMemcpyAsync");
    };
    if (recording.empty()) {
      size_t last = 0;
      for (const Pending& pending : checks) last = std::max(last, pending.place + 1);
      copy(0, last);
      copy(slots, recorded_.size());
    } else {
      for (const Pending& pending : checks) copy(pending.place, 1);
      for (size_t i = 0; i < recorded_.size(); ++i)
        if (!is_left(recorded_[i].launched_on)) copy(slots + i, 1);
    }
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    for (const Pending& pending : checks)
      if (on_host_[pending.place].position >= 0) throw_error(pending.what, on_host_[pending.place]);
    for (size_t i = 0; i < recorded_.size(); ++i) {
      if (recorded_[i].recorded_by == nullptr || is_left(recorded_[i].launched_on)) continue;
      const bool is_wrong = on_host_[slots + i].position >= 0;
      const LateCheck what = recorded_[i].what;
      if (recorded_[i].has_ended) recorded_[i].recorded_by = nullptr;
      if (!is_wrong) continue;
      clear(slots + i, 1);
      throw_error(what, on_host_[slots + i]);
    }
    drop_free();
  }

  Device device_;
  LateErrorSlot* on_device_;          // until the process ends
  LateErrorSlot* on_host_ = nullptr;  // likewise
  std::mutex mutex_;
  std::vector<Pending> checks_;
  std::array<bool, slots> is_taken_{};
  std::vector<Recorded> recorded_;
  std::optional<Stream> own_stream_;
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

LateCapture::LateCapture(Device device, cudaStream_t stream) : device_(device), stream_(stream) {}
LateCapture::~LateCapture() {
  if (LateErrors* some = errors[device_.index]) some->end_recording(stream_, false);
}
void LateCapture::keep() const {
  if (LateErrors* some = errors[device_.index]) some->end_recording(stream_, true);
}

std::unique_lock<std::mutex> late_graph_launch(Device device, cudaStream_t recorded_by, cudaStream_t stream) {
  LateErrors* some = errors[device.index];
  return some != nullptr ? some->launch(recorded_by, stream) : std::unique_lock<std::mutex>();
}

}  // namespace tessera::cuda_runtime
