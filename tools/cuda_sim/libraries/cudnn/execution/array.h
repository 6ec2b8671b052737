// A tensor's values while a graph is executed: doubles in the order of its dimensions.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/cuda_sim/libraries/cudnn/graph/graph.h"
#include "tools/cuda_sim/runtime/tessera_cuda_sim.h"

namespace tessera::cuda_sim::cudnn {

struct Array {
  Sizes dims;
  std::vector<double> values;
};

/// The value as a type holds it: rounded to nearest even, integers cut, booleans 0 or 1.
double rounded(double value, cudnnDataType_t type);
void round_all(Array& array, cudnnDataType_t type);

Array load(const Tensor& tensor, const void* memory);
void store(const Tensor& tensor, void* memory, const Array& array);
/// The memory that a tensor covers, without its gaps.
void add_ranges(std::vector<tessera_cuda_sim_range>& ranges, const Tensor& tensor, const void* memory,
                bool writes);
/// From the first to behind the last byte.
int64_t span_bytes(const Tensor& tensor);

/// Calls visit(offset) for every element in the order of `dims`; offset = sum of index * strides.
template <class Visit>
void for_each_offset(const Sizes& dims, const Sizes& strides, const Visit& visit) {
  for (const int64_t extent : dims)
    if (extent == 0) return;
  const size_t rank = dims.size();
  const int64_t inner = dims[rank - 1], step = strides[rank - 1];
  Sizes index(rank, 0);
  for (int64_t begin = 0;;) {
    for (int64_t i = 0; i < inner; ++i) visit(begin + i * step);
    size_t d = rank - 1;
    for (;;) {
      if (d == 0) return;
      --d;
      begin += strides[d];
      if (++index[d] < dims[d]) break;
      begin -= index[d] * strides[d];
      index[d] = 0;
    }
  }
}

/// Strides of an array, 0 in dimensions that it repeats to have `dims`.
Sizes repeating_strides(const Sizes& own, const Sizes& dims);

}  // namespace tessera::cuda_sim::cudnn
