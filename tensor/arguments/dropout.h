#pragma once

#include <cstdint>
#include <vector>

namespace tessera::ops {

/// The mask that dropout draws for a contiguous tensor (outer, samples, length): element (o, s, i) draws as
/// sample samples[s], at index first_index + o length + i.
struct DropoutRows {
  double probability = 0;
  uint64_t key = 0;
  uint32_t step = 0;
  std::vector<uint32_t> samples = {};
  int64_t length = 0;  ///< adjacent elements of one sample
  int64_t first_index = 0;
};

}  // namespace tessera::ops
