// Which operation of the device comes before which: the question that streams, events and graphs answer.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::cuda_sim {

/// Number of an operation (kernel, copy, fill, host access) in the order of issue. 0: before the first one.
using Operation = uint32_t;

/// Happens-before between operations, by vector clocks over streams and the host.
class OperationOrder {
 public:
  virtual ~OperationOrder() = default;
  /// Whether `earlier` has ended when `later` begins, in every order of execution that streams and events
  /// allow.
  virtual bool is_ordered(Operation earlier, Operation later) const = 0;
  /// "kernel fill on stream 2 (operation 17)".
  virtual std::string describe(Operation operation) const = 0;
};

}  // namespace tessera::cuda_sim
