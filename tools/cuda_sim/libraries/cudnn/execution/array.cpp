#include "tools/cuda_sim/libraries/cudnn/execution/array.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tools/cuda_sim/libraries/half_types.h"

namespace tessera::cuda_sim::cudnn {

namespace {

double load_element(const void* memory, cudnnDataType_t type, uint64_t index) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      return load_as<double>(memory, index);
    case CUDNN_DATA_FLOAT:
      return load_as<float>(memory, index);
    case CUDNN_DATA_HALF:
      return half_to_double(load_as<uint16_t>(memory, index));
    case CUDNN_DATA_BFLOAT16:
      return bfloat_to_double(load_as<uint16_t>(memory, index));
    case CUDNN_DATA_INT64:
      return static_cast<double>(load_as<int64_t>(memory, index));
    case CUDNN_DATA_INT32:
      return load_as<int32_t>(memory, index);
    case CUDNN_DATA_INT8:
      return load_as<int8_t>(memory, index);
    default:
      return load_as<uint8_t>(memory, index);
  }
}

void store_element(void* memory, cudnnDataType_t type, uint64_t index, double value) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      return store_as(memory, index, value);
    case CUDNN_DATA_FLOAT:
      return store_as(memory, index, static_cast<float>(value));
    case CUDNN_DATA_HALF:
      return store_as(memory, index, double_to_half(value));
    case CUDNN_DATA_BFLOAT16:
      return store_as(memory, index, float_to_bfloat(static_cast<float>(value)));
    case CUDNN_DATA_INT64:
      return store_as(memory, index, static_cast<int64_t>(value));
    case CUDNN_DATA_INT32:
      return store_as(memory, index, static_cast<int32_t>(value));
    case CUDNN_DATA_INT8:
      return store_as(memory, index, static_cast<int8_t>(value));
    case CUDNN_DATA_BOOLEAN:
      return store_as<uint8_t>(memory, index, value != 0 ? 1 : 0);
    default:
      return store_as(memory, index, static_cast<uint8_t>(value));
  }
}

/// An extent and a stride of a tensor in memory.
struct Dimension {
  int64_t extent, stride;
};

/// The dimensions from the innermost to the outermost, neighbours joined where there is no gap between them.
std::vector<Dimension> joined_dimensions(const Tensor& tensor) {
  std::vector<Dimension> sorted;
  for (size_t i = 0; i < tensor.dims.size(); ++i)
    if (tensor.dims[i] > 1 && tensor.strides[i] > 0) sorted.push_back({tensor.dims[i], tensor.strides[i]});
  std::sort(sorted.begin(), sorted.end(),
            [](const Dimension& a, const Dimension& b) { return a.stride < b.stride; });
  std::vector<Dimension> joined;
  for (const Dimension& one : sorted) {
    if (!joined.empty() && joined.back().extent * joined.back().stride == one.stride)
      joined.back().extent *= one.extent;
    else
      joined.push_back(one);
  }
  return joined;
}

}  // namespace

double rounded(double value, cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      return value;
    case CUDNN_DATA_FLOAT:
      return static_cast<float>(value);
    case CUDNN_DATA_HALF:
      return half_to_double(double_to_half(value));
    case CUDNN_DATA_BFLOAT16:
      return bfloat_to_double(float_to_bfloat(static_cast<float>(value)));
    case CUDNN_DATA_BOOLEAN:
      return value != 0 ? 1 : 0;
    default:
      return std::trunc(value);
  }
}

void round_all(Array& array, cudnnDataType_t type) {
  if (type == CUDNN_DATA_DOUBLE) return;
  for (double& value : array.values) value = rounded(value, type);
}

Array load(const Tensor& tensor, const void* memory) {
  Array array{tensor.dims, {}};
  array.values.reserve(static_cast<size_t>(tensor.elements()));
  for_each_offset(tensor.dims, tensor.strides, [&](int64_t offset) {
    array.values.push_back(load_element(memory, tensor.type, static_cast<uint64_t>(offset)));
  });
  return array;
}

void store(const Tensor& tensor, void* memory, const Array& array) {
  size_t next = 0;
  for_each_offset(tensor.dims, tensor.strides, [&](int64_t offset) {
    store_element(memory, tensor.type, static_cast<uint64_t>(offset), array.values[next++]);
  });
}

int64_t span_bytes(const Tensor& tensor) {
  if (tensor.elements() == 0) return 0;
  int64_t last = 0;
  for (size_t i = 0; i < tensor.dims.size(); ++i) last += (tensor.dims[i] - 1) * tensor.strides[i];
  return (last + 1) * element_bytes(tensor.type);
}

void add_ranges(std::vector<tessera_cuda_sim_range>& ranges, const Tensor& tensor, const void* memory,
                bool writes) {
  if (tensor.elements() == 0) return;
  const int64_t bytes = element_bytes(tensor.type);
  std::vector<Dimension> dimensions = joined_dimensions(tensor);
  int64_t inner = 1;
  if (!dimensions.empty() && dimensions.front().stride == 1) {
    inner = dimensions.front().extent;
    dimensions.erase(dimensions.begin());
  }
  Sizes extents{1}, strides{0};
  for (auto one = dimensions.rbegin(); one != dimensions.rend(); ++one) {
    extents.push_back(one->extent);
    strides.push_back(one->stride);
  }
  for_each_offset(extents, strides, [&](int64_t offset) {
    ranges.push_back({static_cast<const char*>(memory) + offset * bytes, static_cast<size_t>(inner * bytes),
                      writes ? 1 : 0});
  });
}

Sizes repeating_strides(const Sizes& own, const Sizes& dims) {
  Sizes strides(own.size(), 0);
  int64_t step = 1;
  for (size_t i = own.size(); i-- > 0; step *= own[i]) strides[i] = own[i] == 1 && dims[i] != 1 ? 0 : step;
  return strides;
}

}  // namespace tessera::cuda_sim::cudnn
