// Operation graphs in few lines: a tensor is a number, an operation a call.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda_sim/libraries/cudnn_graphs/descriptor.h"

namespace cudnn_graphs {

using Sizes = std::vector<int64_t>;

/// Strides of a tensor whose last dimension is the innermost one.
inline Sizes packed(const Sizes& dims) {
  Sizes strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

/// Strides of (N, C, spatial...) with the channels innermost.
inline Sizes channels_last(const Sizes& dims) {
  Sizes strides(dims.size(), 1);
  int64_t step = dims[1];
  for (size_t i = dims.size() - 1; i > 1; --i) {
    strides[i] = step;
    step *= dims[i];
  }
  strides[0] = step;
  return strides;
}

struct TensorOptions {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  bool is_virtual = false, by_value = false;
  int64_t alignment = 16;
};

/// The number of a tensor in its graph, and in the variant pack; 0 is none.
using Id = int64_t;

struct PointwiseOptions {
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  int64_t axis = -1;
  Id mask = 0;  ///< of a binary select
};

struct ConvolutionSizes {
  Sizes padding, stride, dilation;
  Sizes post_padding = {};  ///< where it differs
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
};

class Graph {
 public:
  Id tensor(const Sizes& dims, const Sizes& strides, const TensorOptions& options = {});
  Id tensor(const Sizes& dims, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return tensor(dims, packed(dims), {.type = type});
  }
  Id intermediate(const Sizes& dims, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return tensor(dims, packed(dims), {.type = type, .is_virtual = true});
  }
  /// A value that the variant pack has on the host.
  Id scalar(size_t rank, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return tensor(Sizes(rank, 1), Sizes(rank, 1), {.type = type, .by_value = true});
  }

  void pointwise(cudnnPointwiseMode_t mode, Id x, Id b, Id y, const PointwiseOptions& options = {});
  /// A derivative: dy and the forward's x or y give dx.
  void pointwise_backward(cudnnPointwiseMode_t mode, Id dy, Id x, Id dx);
  void matmul(Id a, Id b, Id c, cudnnDataType_t compute = CUDNN_DATA_FLOAT);
  void reduce(cudnnReduceTensorOp_t mode, Id x, Id y, cudnnDataType_t compute = CUDNN_DATA_FLOAT);
  void reshape(Id x, Id y);
  void random_mask(Id y, Id seed, Id offset, double keep);
  void convolution(Id x, Id w, Id y, const ConvolutionSizes& sizes);
  void convolution_data_gradient(Id dy, Id w, Id dx, const ConvolutionSizes& sizes);
  void convolution_filter_gradient(Id dy, Id x, Id dw, const ConvolutionSizes& sizes);
  /// Attribute and tensor of a normalization's operands.
  using Operands = std::initializer_list<std::pair<cudnnBackendAttributeName_t, Id>>;
  void norm_forward(cudnnBackendNormMode_t mode, cudnnBackendNormFwdPhase_t phase, Operands operands);
  void norm_backward(cudnnBackendNormMode_t mode, Operands operands);
  Descriptor& convolution_sizes(const ConvolutionSizes& sizes);
  Descriptor& operation(cudnnBackendDescriptorType_t type, const char* name);
  Descriptor& part(cudnnBackendDescriptorType_t type, const char* name);
  const Descriptor& operator[](Id id) const { return tensors_[static_cast<size_t>(id - 1)]; }

  /// The operation graph's descriptor, finalized.
  Descriptor finish(cudnnHandle_t handle = nullptr) const;

 private:
  template <class Scale>
  void convolve(cudnnBackendDescriptorType_t type, const char* name,
                const cudnnBackendAttributeName_t (&names)[6], const Id (&ids)[3],
                const ConvolutionSizes& sizes);

  std::deque<Descriptor> tensors_, parts_, operations_;
};

/// A plan and what it was made of.
class Plan {
 public:
  /// The first configuration of the heuristics whose plan can be finalized. `device`: JSON of device
  /// properties, for a plan without a device; empty: the handle's device.
  Plan(const Graph& graph, cudnnHandle_t handle, const std::string& device = "");
  cudnnBackendDescriptor_t get() const { return plan_->get(); }
  int64_t workspace_bytes() const { return workspace_bytes_; }
  /// Issues it. `pointers` are in the order of `ids`.
  cudnnStatus_t execute(cudnnHandle_t handle, const Sizes& ids, const std::vector<void*>& pointers,
                        void* workspace) const;

 private:
  cudnnStatus_t try_mode(cudnnBackendHeurMode_t mode, const std::string& device);

  std::deque<Descriptor> parts_;
  const Descriptor* graph_ = nullptr;
  const Descriptor* properties_ = nullptr;
  const Descriptor* plan_ = nullptr;
  cudnnHandle_t handle_ = nullptr;
  int64_t workspace_bytes_ = 0;
};

// ------------------------------------------------------------------------------------------- definitions

inline Id Graph::tensor(const Sizes& dims, const Sizes& strides, const TensorOptions& options) {
  const auto id = static_cast<Id>(tensors_.size() + 1);
  Descriptor& made = tensors_.emplace_back(CUDNN_BACKEND_TENSOR_DESCRIPTOR, "tensor " + std::to_string(id));
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, options.type);
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims);
  made.set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, options.alignment);
  made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, options.is_virtual);
  made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, options.by_value);
  made.finalize();
  return id;
}

inline Descriptor& Graph::operation(cudnnBackendDescriptorType_t type, const char* name) {
  return operations_.emplace_back(type, name);
}
inline Descriptor& Graph::part(cudnnBackendDescriptorType_t type, const char* name) {
  return parts_.emplace_back(type, name);
}

inline void Graph::pointwise(cudnnPointwiseMode_t mode, Id x, Id b, Id y, const PointwiseOptions& options) {
  Descriptor& how = part(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "pointwise description");
  how.set(CUDNN_ATTR_POINTWISE_MODE, mode);
  how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, options.compute);
  if (options.axis >= 0) how.set(CUDNN_ATTR_POINTWISE_AXIS, options.axis);
  how.finalize();
  Descriptor& made = operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "pointwise");
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, (*this)[x]);
  if (b != 0) made.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, (*this)[b]);
  if (options.mask != 0) made.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, (*this)[options.mask]);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, (*this)[y]);
  made.finalize();
}

inline void Graph::pointwise_backward(cudnnPointwiseMode_t mode, Id dy, Id x, Id dx) {
  Descriptor& how = part(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "pointwise description");
  how.set(CUDNN_ATTR_POINTWISE_MODE, mode);
  how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  how.finalize();
  Descriptor& made = operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "pointwise backward");
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, (*this)[dy]);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, (*this)[x]);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, (*this)[dx]);
  made.finalize();
}

inline void Graph::matmul(Id a, Id b, Id c, cudnnDataType_t compute) {
  Descriptor& how = part(CUDNN_BACKEND_MATMUL_DESCRIPTOR, "matmul description");
  how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, compute);
  how.finalize();
  Descriptor& made = operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, "matmul");
  made.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, (*this)[a]);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, (*this)[b]);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, (*this)[c]);
  made.finalize();
}

inline void Graph::reduce(cudnnReduceTensorOp_t mode, Id x, Id y, cudnnDataType_t compute) {
  Descriptor& how = part(CUDNN_BACKEND_REDUCTION_DESCRIPTOR, "reduction description");
  how.set(CUDNN_ATTR_REDUCTION_OPERATOR, mode);
  how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, compute);
  how.finalize();
  Descriptor& made = operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, "reduction");
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, (*this)[x]);
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, (*this)[y]);
  made.finalize();
}

inline void Graph::reshape(Id x, Id y) {
  Descriptor& made = operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, "reshape");
  made.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, (*this)[x]);
  made.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, (*this)[y]);
  made.finalize();
}

inline void Graph::random_mask(Id y, Id seed, Id offset, double keep) {
  Descriptor& how = part(CUDNN_BACKEND_RNG_DESCRIPTOR, "random description");
  how.set(CUDNN_ATTR_RNG_DISTRIBUTION, CUDNN_RNG_DISTRIBUTION_BERNOULLI);
  how.set(CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, keep);
  how.finalize();
  Descriptor& made = operation(CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR, "random");
  made.set(CUDNN_ATTR_OPERATION_RNG_DESC, how);
  made.set(CUDNN_ATTR_OPERATION_RNG_YDESC, (*this)[y]);
  made.set(CUDNN_ATTR_OPERATION_RNG_SEED, (*this)[seed]);
  made.set(CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC, (*this)[offset]);
  made.finalize();
}

inline Descriptor& Graph::convolution_sizes(const ConvolutionSizes& sizes) {
  Descriptor& how = part(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, "convolution description");
  how.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, sizes.compute);
  how.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, sizes.mode);
  how.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<int64_t>(sizes.stride.size()));
  how.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, sizes.padding);
  how.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
          sizes.post_padding.empty() ? sizes.padding : sizes.post_padding);
  how.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, sizes.stride);
  how.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, sizes.dilation);
  how.finalize();
  return how;
}

/// `names`: of the description, alpha, beta and the three tensors.
template <class Scale>
void Graph::convolve(cudnnBackendDescriptorType_t type, const char* name,
                     const cudnnBackendAttributeName_t (&names)[6], const Id (&ids)[3],
                     const ConvolutionSizes& sizes) {
  const Descriptor& how = convolution_sizes(sizes);
  Descriptor& made = operation(type, name);
  made.set(names[0], how);
  made.set(names[1], Scale{1});
  made.set(names[2], Scale{0});
  for (int i = 0; i < 3; ++i) made.set(names[3 + i], (*this)[ids[i]]);
  made.finalize();
}

inline void Graph::convolution(Id x, Id w, Id y, const ConvolutionSizes& sizes) {
  constexpr cudnnBackendAttributeName_t names[] = {
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
  constexpr auto type = CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  if (sizes.compute == CUDNN_DATA_DOUBLE)
    convolve<double>(type, "convolution", names, {x, w, y}, sizes);
  else
    convolve<float>(type, "convolution", names, {x, w, y}, sizes);
}

inline void Graph::convolution_data_gradient(Id dy, Id w, Id dx, const ConvolutionSizes& sizes) {
  constexpr cudnnBackendAttributeName_t names[] = {
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX};
  constexpr auto type = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
  if (sizes.compute == CUDNN_DATA_DOUBLE)
    convolve<double>(type, "data gradient", names, {dy, w, dx}, sizes);
  else
    convolve<float>(type, "data gradient", names, {dy, w, dx}, sizes);
}

inline void Graph::convolution_filter_gradient(Id dy, Id x, Id dw, const ConvolutionSizes& sizes) {
  constexpr cudnnBackendAttributeName_t names[] = {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW};
  constexpr auto type = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
  if (sizes.compute == CUDNN_DATA_DOUBLE)
    convolve<double>(type, "filter gradient", names, {dy, x, dw}, sizes);
  else
    convolve<float>(type, "filter gradient", names, {dy, x, dw}, sizes);
}

inline void Graph::norm_forward(cudnnBackendNormMode_t mode, cudnnBackendNormFwdPhase_t phase,
                                Operands operands) {
  Descriptor& made = operation(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, "norm forward");
  made.set(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, mode);
  made.set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, phase);
  for (const auto& [attribute, id] : operands) made.set(attribute, (*this)[id]);
  made.finalize();
}

inline void Graph::norm_backward(cudnnBackendNormMode_t mode, Operands operands) {
  Descriptor& made = operation(CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR, "norm backward");
  made.set(CUDNN_ATTR_OPERATION_NORM_BWD_MODE, mode);
  for (const auto& [attribute, id] : operands) made.set(attribute, (*this)[id]);
  made.finalize();
}

inline Descriptor Graph::finish(cudnnHandle_t handle) const {
  Descriptor made(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "operation graph");
  std::vector<cudnnBackendDescriptor_t> all;
  for (const Descriptor& one : operations_) all.push_back(one.get());
  made.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, all);
  if (handle != nullptr) made.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  made.finalize();
  return made;
}

inline Plan::Plan(const Graph& graph, cudnnHandle_t handle, const std::string& device) : handle_(handle) {
  graph_ = &parts_.emplace_back(graph.finish(handle));
  if (!device.empty()) {
    Descriptor& made = parts_.emplace_back(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "device properties");
    made.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, device);
    made.finalize();
    properties_ = &made;
  }
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    status = try_mode(mode, device);
    if (status == CUDNN_STATUS_SUCCESS) return;
  }
  require(status, "plan");
}

inline cudnnStatus_t Plan::try_mode(cudnnBackendHeurMode_t mode, const std::string& device) {
  Descriptor& heuristics = parts_.emplace_back(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "heuristics");
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, *graph_);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (properties_ != nullptr) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *properties_);
  if (const cudnnStatus_t status = cudnnBackendFinalize(heuristics.get()); status != CUDNN_STATUS_SUCCESS)
    return status;
  int64_t count = 0;
  require(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
          "number of results");
  std::vector<cudnnBackendDescriptor_t> configurations;
  for (int64_t i = 0; i < count; ++i)
    configurations.push_back(parts_.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "configuration").get());
  int64_t got = 0;
  require(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &got, configurations.data()),
          "results");
  cudnnStatus_t status = CUDNN_STATUS_NOT_SUPPORTED;
  for (int64_t i = 0; i < got; ++i) {
    Descriptor& plan = parts_.emplace_back(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "plan");
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configurations[static_cast<size_t>(i)]);
    if (device.empty())
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle_);
    else
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *properties_);
    status = cudnnBackendFinalize(plan.get());
    if (status != CUDNN_STATUS_SUCCESS) continue;
    plan_ = &plan;
    int64_t one = 0;
    require(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                     1, &one, &workspace_bytes_),
            "workspace");
    return status;
  }
  return status;
}

inline cudnnStatus_t Plan::execute(cudnnHandle_t handle, const Sizes& ids, const std::vector<void*>& pointers,
                                   void* workspace) const {
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "variant pack");
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<int64_t>(pointers.size()),
           pointers.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  pack.finalize();
  return cudnnBackendExecute(handle, plan_->get(), pack.get());
}

}  // namespace cudnn_graphs
