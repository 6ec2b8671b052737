#pragma once  // internal

#include <cuda_runtime_api.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "tensor/device.h"
#include "tensor/shape.h"

namespace tessera::cuda_runtime {

/// What a kernel writes about the first element that is wrong.
struct LateErrorSlot {
  int64_t position;  ///< of the element; -1: none is
  int64_t value;     ///< the element
};

/// What is checked: its words in the error.
struct LateCheck {
  /// Which values. A negative limit is a check of divisors, a value that is ignored one of targets, whatever
  /// the kind says.
  enum class Kind : uint8_t {
    indices,           ///< in [0, limit)
    index_entry,       ///< of an index tensor in a list, in [-limit, limit)
    targets,           ///< of a loss, in [0, limit), but for the one that is ignored
    offsets,           ///< of bags: rising from 0 to `limit` at most
    last_offset,       ///< `limit` itself
    weights,           ///< of a draw, finite and at least 0; the slot's value has the bits of the f64
    positive_weights,  ///< of a row of them: `limit` at least
  };
  const char* where;                    ///< the operation; a literal
  Shape shape;                          ///< of the tensor that is checked
  int64_t limit;                        ///< indices are in [0, limit); -1: a check of divisors
  std::optional<int64_t> ignored = {};  ///< of a loss's targets: the one outside that is no mistake
  Kind kind = Kind::indices;
  int entry = 0;  ///< the place of an index tensor in its list
};

/// A slot that a check has. Until it is destroyed no other thread reads or takes slots: it lives until the
/// kernels that write to it have been launched.
struct TakenSlot {
  LateErrorSlot* slot;  ///< in the device's memory, set to "none"
  std::unique_lock<std::mutex> lock;
};

/// Values that only the device has (indices, divisors) are checked there, and the host does not wait: a
/// kernel writes to a slot, and `throw_late_errors` reads all slots when the host waits for the device
/// anyway. Kernels that use such values leave out the elements that are wrong, so that memory is safe
/// meanwhile.
///
/// Takes a free slot. Throws the errors of earlier checks when all are taken.
TakenSlot late_error_slot(Device device, const LateCheck& check);
/// Throws the first error that kernels have written since the last call: IndexError, ValueError. Called when
/// the current stream has ended. Costs nothing where there was no check. Other threads' checks and launches
/// of graphs wait until it returns.
void throw_late_errors(Device device);
/// Says that `stream` has ended and is destroyed.
void forget_late_stream(Device device, cudaStream_t stream);

/// Checks that are recorded in a graph have slots of their own, until the stream that recorded it ends or
/// records another one: each launch checks again. What it finds stays until it is thrown, even where the
/// graph is gone by then.
///
/// A scope around a recording. Its checks are forgotten with it unless `keep` takes them, in place of those
/// of the stream's recording before.
class LateCapture {
 public:
  LateCapture(Device device, cudaStream_t stream);
  ~LateCapture();
  LateCapture(const LateCapture&) = delete;
  LateCapture& operator=(const LateCapture&) = delete;
  void keep() const;

 private:
  Device device_;
  cudaStream_t stream_;
};
/// Says that `stream` is given the graph that `recorded_by` recorded, which the caller does while it has the
/// lock: slots that were read are cleared before the launch or after it has ended, never beside it.
[[nodiscard]] std::unique_lock<std::mutex> late_graph_launch(Device device, cudaStream_t recorded_by,
                                                             cudaStream_t stream);

}  // namespace tessera::cuda_runtime
