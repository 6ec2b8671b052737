#include <algorithm>
#include <map>

#include "tools/cuda_sim/libraries/cudnn/graph/graph.h"

namespace tessera::cuda_sim::cudnn {

namespace {

using Roles = std::vector<cudnnBackendAttributeName_t>;

struct OperationRoles {
  Roles inputs, outputs;
};

const OperationRoles& roles_of(cudnnBackendDescriptorType_t type) {
  static const std::map<cudnnBackendDescriptorType_t, OperationRoles> all{
      {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
         CUDNN_ATTR_OPERATION_POINTWISE_TDESC, CUDNN_ATTR_OPERATION_POINTWISE_DYDESC},
        {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC}}},
      {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC},
        {CUDNN_ATTR_OPERATION_MATMUL_CDESC}}},
      {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_REDUCTION_XDESC}, {CUDNN_ATTR_OPERATION_REDUCTION_YDESC}}},
      {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_RESHAPE_XDESC}, {CUDNN_ATTR_OPERATION_RESHAPE_YDESC}}},
      {CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_RNG_SEED, CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC},
        {CUDNN_ATTR_OPERATION_RNG_YDESC}}},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y}}},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX}}},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW}}},
      {CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC,
         CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC,
         CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC,
         CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC,
         CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC},
        {CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC,
         CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC,
         CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC,
         CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC}}},
      {CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC,
         CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC,
         CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, CUDNN_ATTR_OPERATION_NORM_BWD_EPSILON_DESC},
        {CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC,
         CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC}}},
  };
  return all.at(type);
}

/// In inference a normalization reads its statistics.
bool reads_statistics(const Descriptor& operation, cudnnBackendAttributeName_t role) {
  return operation.type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR &&
         operation.get<cudnnBackendNormFwdPhase_t>(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE) ==
             CUDNN_NORM_FWD_INFERENCE &&
         (role == CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC ||
          role == CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC);
}

class Builder {
 public:
  Graph graph;

  void add(const DescriptorPointer& operation) {
    Node node{.type = operation->type, .operation = operation, .how = description_of(*operation)};
    const auto number = static_cast<int>(graph.nodes.size());
    const OperationRoles& roles = roles_of(operation->type);
    for (const auto role : roles.inputs)
      if (const DescriptorPointer tensor = operation->part(role)) read(node, role, *tensor);
    for (const auto role : roles.outputs) {
      const DescriptorPointer tensor = operation->part(role);
      if (tensor == nullptr) continue;
      if (reads_statistics(*operation, role)) {
        read(node, role, *tensor);
        continue;
      }
      const int index = index_of(*tensor);
      Tensor& written = graph.tensors[static_cast<size_t>(index)];
      require(written.writer < 0, CUDNN_STATUS_BAD_PARAM, "tensor ", written.uid, " has two writers");
      require(!written.by_value, CUDNN_STATUS_BAD_PARAM, "tensor ", written.uid,
              " is passed by value, and written");
      written.writer = number;
      node.outputs.push_back({role, index});
    }
    graph.nodes.push_back(std::move(node));
  }

  /// Puts each node after those that write what it reads.
  void sort() {
    std::vector<Node> sorted;
    std::vector<char> is_done(graph.nodes.size());
    while (sorted.size() < graph.nodes.size()) {
      const size_t before = sorted.size();
      for (size_t i = 0; i < graph.nodes.size(); ++i) {
        if (is_done[i] || !is_ready(graph.nodes[i], is_done)) continue;
        is_done[i] = 1;
        sorted.push_back(graph.nodes[i]);
      }
      require(sorted.size() > before, CUDNN_STATUS_BAD_PARAM, "the operations form a cycle");
    }
    graph.nodes = std::move(sorted);
  }

 private:
  void read(Node& node, cudnnBackendAttributeName_t role, const Descriptor& tensor) {
    const int index = index_of(tensor);
    ++graph.tensors[static_cast<size_t>(index)].readers;
    node.inputs.push_back({role, index});
  }

  bool is_ready(const Node& node, const std::vector<char>& is_done) const {
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](const Operand& operand) {
      const int writer = graph.tensors[static_cast<size_t>(operand.tensor)].writer;
      return writer < 0 || is_done[static_cast<size_t>(writer)];
    });
  }

  int index_of(const Descriptor& descriptor) {
    const Tensor tensor = read_tensor(descriptor);
    const auto [at, is_new] = numbers_.try_emplace(tensor.uid, static_cast<int>(graph.tensors.size()));
    if (is_new) {
      graph.tensors.push_back(tensor);
    } else {
      const Tensor& known = graph.tensors[static_cast<size_t>(at->second)];
      require(known.dims == tensor.dims && known.strides == tensor.strides && known.type == tensor.type,
              CUDNN_STATUS_BAD_PARAM, "two tensors that differ have the number ", tensor.uid);
    }
    return at->second;
  }

  std::map<int64_t, int> numbers_;
};

}  // namespace

int64_t Tensor::elements() const {
  int64_t count = 1;
  for (const int64_t extent : dims) count *= extent;
  return count;
}

int Node::find(cudnnBackendAttributeName_t role) const {
  for (const auto* list : {&inputs, &outputs})
    for (const Operand& operand : *list)
      if (operand.role == role) return operand.tensor;
  return -1;
}

Tensor read_tensor(const Descriptor& descriptor) {
  return {.uid = descriptor.get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID),
          .type = descriptor.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE),
          .dims = descriptor.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
          .strides = descriptor.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES),
          .alignment = descriptor.get<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1),
          .is_virtual = descriptor.get<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL),
          .by_value = descriptor.get<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE)};
}

DescriptorPointer description_of(const Descriptor& operation) {
  for (const auto attribute : {CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_DESC,
                               CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_ATTR_OPERATION_RNG_DESC,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC})
    if (const DescriptorPointer part = operation.part(attribute)) return part;
  return nullptr;
}

const Roles& input_roles(cudnnBackendDescriptorType_t type) {
  return roles_of(type).inputs;
}
const Roles& output_roles(cudnnBackendDescriptorType_t type) {
  return roles_of(type).outputs;
}

std::shared_ptr<const Graph> build_graph(const std::vector<DescriptorPointer>& operations) {
  require(!operations.empty(), CUDNN_STATUS_BAD_PARAM, "the graph has no operations");
  Builder builder;
  for (const DescriptorPointer& operation : operations) builder.add(operation);
  builder.sort();
  return std::make_shared<const Graph>(std::move(builder.graph));
}

int64_t element_bytes(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
    case CUDNN_DATA_INT64:
      return 8;
    case CUDNN_DATA_FLOAT:
    case CUDNN_DATA_INT32:
      return 4;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
      return 2;
    case CUDNN_DATA_INT8:
    case CUDNN_DATA_UINT8:
    case CUDNN_DATA_BOOLEAN:
      return 1;
    default:
      return 0;
  }
}

}  // namespace tessera::cuda_sim::cudnn
