// An event: a point in a stream.
#pragma once

#include <memory>
#include <vector>

#include "tools/cuda_sim/checks/operation_order.h"

namespace tessera::cuda_sim {

struct CaptureSession;
struct GraphNode;

struct Event {
  /// What a record leaves behind; it outlives the event, since operations may still hold it.
  struct Record {
    Operation operation = 0;  ///< 0: not recorded
    uint64_t ended_at = 0;    ///< simulated clock
  };
  unsigned flags = 0;
  int device = 0;
  std::shared_ptr<Record> record = std::make_shared<Record>();
  uint64_t capture_id = 0;  ///< of the capture in which it was recorded last; 0: none
  std::vector<GraphNode*> capture_nodes;
};

}  // namespace tessera::cuda_sim
