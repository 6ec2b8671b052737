#pragma once

#include "tensor/profile/named_scope.h"

namespace tessera {

/// While it lives, the results of this thread's recorded operations and all gradients are searched for NaN.
/// The first one throws NonFiniteError naming the operation, the module in which it ran and the element.
/// Slow; for finding bugs.
class AnomalyMode {
 public:
  AnomalyMode();
  ~AnomalyMode();
  AnomalyMode(const AnomalyMode&) = delete;
  AnomalyMode& operator=(const AnomalyMode&) = delete;

 private:
  bool previous_;
};

}  // namespace tessera
