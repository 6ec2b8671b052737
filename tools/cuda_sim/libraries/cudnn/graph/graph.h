// A graph of operations, read from its descriptors: tensors, and nodes in an order that can be executed.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tools/cuda_sim/libraries/cudnn/descriptors/descriptor.h"

namespace tessera::cuda_sim::cudnn {

using Sizes = std::vector<int64_t>;

struct Tensor {
  int64_t uid = 0;
  cudnnDataType_t type{};
  Sizes dims, strides;
  int64_t alignment = 1;
  bool is_virtual = false, by_value = false;
  int writer = -1;  ///< the node that computes it
  int readers = 0;

  int64_t elements() const;
};

/// A tensor in its role.
struct Operand {
  cudnnBackendAttributeName_t role;
  int tensor;
};

struct Node {
  cudnnBackendDescriptorType_t type{};
  DescriptorPointer operation{}, how{};  ///< `how`: its pointwise, matmul, ... description; null for some
  std::vector<Operand> inputs{}, outputs{};

  /// The index of the tensor in a role, -1 where there is none.
  int find(cudnnBackendAttributeName_t role) const;
};

struct Graph {
  std::vector<Tensor> tensors;
  std::vector<Node> nodes;

  /// The tensor of a role, or null.
  const Tensor* tensor(const Node& node, cudnnBackendAttributeName_t role) const {
    const int index = node.find(role);
    return index < 0 ? nullptr : &tensors[static_cast<size_t>(index)];
  }
};

/// The tensor that a descriptor describes.
Tensor read_tensor(const Descriptor& descriptor);
/// The description that an operation refers to, or null.
DescriptorPointer description_of(const Descriptor& operation);
/// The roles of an operation's inputs and outputs.
/// @{
const std::vector<cudnnBackendAttributeName_t>& input_roles(cudnnBackendDescriptorType_t type);
const std::vector<cudnnBackendAttributeName_t>& output_roles(cudnnBackendDescriptorType_t type);
/// @}

/// Throw a Failure: CUDNN_STATUS_BAD_PARAM.
/// @{
/// For an operation whose operands do not fit.
void check_operation(const Descriptor& operation);
/// For no operations, tensors that differ under one number, two writers, a cycle.
std::shared_ptr<const Graph> build_graph(const std::vector<DescriptorPointer>& operations);
/// @}

/// Throws a Failure, CUDNN_STATUS_NOT_SUPPORTED, for a graph that no engine of the real library takes.
void check_support(const Graph& graph);
/// Scratch memory of a plan.
int64_t workspace_bytes(const Graph& graph);

/// Bytes of an element; 0 for types that are not simulated.
int64_t element_bytes(cudnnDataType_t type);

}  // namespace tessera::cuda_sim::cudnn
