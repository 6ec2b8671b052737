#pragma once

#include <cstdint>
#include <vector>

namespace tessera::ops {

/// The mask that dropout draws for a contiguous tensor (outer, samples, length): element (o, s, i) draws as
/// sample samples[s], at index first_index + o length + i.
struct DropoutRows {
  double probability = 0;              ///< of an element to be dropped
  uint64_t key = 0;                    ///< of the random stream: seed and module
  uint32_t step = 0;                   ///< of training
  std::vector<uint32_t> samples = {};  ///< the global number of each sample
  int64_t length = 0;                  ///< adjacent elements of one sample
  int64_t first_index = 0;             ///< the index of the first element within its sample
};

}  // namespace tessera::ops
