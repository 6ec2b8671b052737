// Tensors in device memory with their values on the host, and a handle.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cudnn.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tests/cuda_sim/device_check.h"
#include "tests/cuda_sim/libraries/cudnn_graphs/graph.h"

namespace cudnn_graphs {

#define CHECK_STATUS(call, wanted) CHECK_EQ(static_cast<int>(call), static_cast<int>(wanted))

inline size_t type_bytes(cudnnDataType_t type) {
  return type == CUDNN_DATA_DOUBLE || type == CUDNN_DATA_INT64  ? 8
         : type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_INT32 ? 4
                                                                : 2;
}

inline double load_value(const char* at, cudnnDataType_t type) {
  const auto as = [&](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      return as(0.0);
    case CUDNN_DATA_FLOAT:
      return as(0.0f);
    case CUDNN_DATA_HALF:
      return __half2float(as(__half{}));
    case CUDNN_DATA_INT64:
      return static_cast<double>(as(int64_t{}));
    default:
      return __bfloat162float(as(__nv_bfloat16{}));
  }
}

inline void store_value(char* at, cudnnDataType_t type, double value) {
  const auto put = [&](auto converted) { std::memcpy(at, &converted, sizeof converted); };
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      return put(value);
    case CUDNN_DATA_FLOAT:
      return put(static_cast<float>(value));
    case CUDNN_DATA_HALF:
      return put(__float2half(static_cast<float>(value)));
    case CUDNN_DATA_INT64:
      return put(static_cast<int64_t>(value));
    default:
      return put(__float2bfloat16(static_cast<float>(value)));
  }
}

/// A tensor's memory. `values` are in the order of its dimensions, as its type holds them.
class Memory {
 public:
  std::vector<double> values;

  Memory(const Sizes& dims, const Sizes& strides, cudnnDataType_t type)
      : dims_(dims), strides_(strides), type_(type) {
    size_t last = 0, elements = 1;
    for (size_t i = 0; i < dims.size(); ++i) {
      last += static_cast<size_t>((dims[i] - 1) * strides[i]);
      elements *= static_cast<size_t>(dims[i]);
    }
    host_.resize((last + 1) * type_bytes(type));
    values.resize(elements);
    REQUIRE_OK(cudaMalloc(&device_, host_.size()));
  }
  explicit Memory(const Sizes& dims, cudnnDataType_t type = CUDNN_DATA_FLOAT)
      : Memory(dims, packed(dims), type) {}
  ~Memory() { CHECK_OK(cudaFree(device_)); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Values in [-1, 1) from a seed.
  Memory& fill(unsigned seed, double scale = 1) {
    for (double& value : values) {
      seed = seed * 1664525 + 1013904223;
      value = scale * (static_cast<double>(seed >> 16 & 255) - 128) / 128;
    }
    return write();
  }
  Memory& write() {
    visit([&](size_t at, double& value) {
      store_value(host_.data() + at, type_, value);
      value = load_value(host_.data() + at, type_);
    });
    REQUIRE_OK(cudaMemcpy(device_, host_.data(), host_.size(), cudaMemcpyHostToDevice));
    return *this;
  }
  /// The values that the device has.
  const std::vector<double>& read() {
    // Element by element where there are gaps, which stay uninitialised.
    const bool has_gaps = values.size() * type_bytes(type_) != host_.size();
    if (!has_gaps) REQUIRE_OK(cudaMemcpy(host_.data(), device_, host_.size(), cudaMemcpyDeviceToHost));
    visit([&](size_t at, double& value) {
      char* const to = host_.data() + at;
      if (has_gaps) REQUIRE_OK(cudaMemcpy(to, offset(at), type_bytes(type_), cudaMemcpyDeviceToHost));
      value = load_value(to, type_);
    });
    return values;
  }
  void* get() const { return device_; }
  char* offset(size_t bytes) const { return static_cast<char*>(device_) + bytes; }

 private:
  template <class Visit>
  void visit(const Visit& visit) {
    Sizes index(dims_.size(), 0);
    for (double& value : values) {
      int64_t at = 0;
      for (size_t d = 0; d < dims_.size(); ++d) at += index[d] * strides_[d];
      visit(static_cast<size_t>(at) * type_bytes(type_), value);
      for (size_t d = dims_.size(); d-- > 0 && ++index[d] == dims_[d];) index[d] = 0;
    }
  }

  Sizes dims_, strides_;
  cudnnDataType_t type_;
  std::vector<char> host_;
  void* device_ = nullptr;
};

/// A library handle.
struct Session {
  cudnnHandle_t handle = nullptr;
  Session() { CHECK_STATUS(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS); }
  ~Session() { CHECK_STATUS(cudnnDestroy(handle), CUDNN_STATUS_SUCCESS); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
};

/// Pointers by the numbers of a graph's tensors.
struct Bindings {
  Sizes ids;
  std::vector<void*> pointers;
  void add(Id id, void* pointer) {
    ids.push_back(id);
    pointers.push_back(pointer);
  }
  void add(Id id, const Memory& memory) { add(id, memory.get()); }
};

/// Plans the graph, executes it on the default stream, and waits.
inline void run_graph(const Session& session, const Graph& graph, const Bindings& bindings) {
  try {
    const Plan plan(graph, session.handle);
    void* workspace = nullptr;
    if (plan.workspace_bytes() > 0)
      REQUIRE_OK(cudaMalloc(&workspace, static_cast<size_t>(plan.workspace_bytes())));
    require(plan.execute(session.handle, bindings.ids, bindings.pointers, workspace), "execute");
    CHECK_OK(cudaDeviceSynchronize());
    CHECK_OK(cudaFree(workspace));
  } catch (const Refused& refused) {
    std::printf("%s: %s: %s\n", refused.step.c_str(), cudnnGetErrorString(refused.status),
                refused.message.c_str());
    CHECK(false);
  }
}

/// The largest difference over 1 + the expected magnitude; NaN where one value is NaN.
inline double worst_error(const std::vector<double>& got, const std::vector<double>& expected) {
  double worst = got.size() == expected.size() ? 0 : NAN;
  for (size_t i = 0; i < expected.size() && !std::isnan(worst); ++i) {
    const double error = std::fabs(got[i] - expected[i]) / (1 + std::fabs(expected[i]));
    worst = std::isnan(error) || error > worst ? error : worst;
  }
  return worst;
}

/// Two roundings to a type.
inline double tolerance_of(cudnnDataType_t type) {
  return type == CUDNN_DATA_BFLOAT16 ? 0.008 : type == CUDNN_DATA_HALF ? 0.001 : 1e-6;
}

}  // namespace cudnn_graphs
