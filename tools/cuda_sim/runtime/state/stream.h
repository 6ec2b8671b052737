// A stream: a chain of operations of one device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/cuda_sim/runtime/schedule/operation_log.h"

namespace tessera::cuda_sim {

struct DeviceState;
struct CaptureSession;
struct GraphNode;

struct Stream {
  enum class Kind : uint8_t { legacy, per_thread, created };
  DeviceState* device = nullptr;
  Kind kind = Kind::created;
  bool is_blocking = true;  ///< it and the legacy stream wait for each other
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  uint32_t chain = 0;
  CaptureSession* capture = nullptr;      ///< while it captures
  std::vector<GraphNode*> capture_front;  ///< nodes that the next captured one depends on
};

}  // namespace tessera::cuda_sim
