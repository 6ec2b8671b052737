#pragma once

#include "tensor/profile/named_scope.h"

namespace tessera {

/// While it lives, every recorded operation of this thread and every gradient is searched for NaN, and the
/// first one throws NonFiniteError naming the operation, the module it ran in and the element. Slow; for
/// finding bugs.
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
