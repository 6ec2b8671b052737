// The constants of a kernel, each stored once for all lanes.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "tools/cuda_sim/machine/program.h"

namespace tessera::cuda_sim {

class ConstantBank {
 public:
  /// 32 values of `bytes` bytes, all of them `bits`.
  Place broadcast(uint64_t bits, int bytes);
  /// A predicate that holds for all lanes or for none.
  Place predicate(bool value);
  LaneBytes take() { return std::move(bytes_); }

 private:
  LaneBytes bytes_;
  std::map<std::pair<int, uint64_t>, Place> places_;
};

}  // namespace tessera::cuda_sim
