// Which graphs an engine of the real library takes, on a card of compute capability 9.0: found by asking
// cuDNN 9.19 for plans (tests/cuda_sim/libraries/cudnn_probe). What it would take and is not listed here is
// refused.
#include <algorithm>

#include "tools/cuda_sim/libraries/cudnn/graph/graph.h"

namespace tessera::cuda_sim::cudnn {

namespace {

constexpr cudnnStatus_t unsupported = CUDNN_STATUS_NOT_SUPPORTED;

bool is_half(cudnnDataType_t type) {
  return type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
}
bool is_real(cudnnDataType_t type) {
  return is_half(type) || type == CUDNN_DATA_FLOAT;
}

std::vector<const Node*> nodes_of(const Graph& graph, cudnnBackendDescriptorType_t type) {
  std::vector<const Node*> found;
  for (const Node& node : graph.nodes)
    if (node.type == type) found.push_back(&node);
  return found;
}

/// Dimension 1 is the innermost one, the others follow from the last to the first.
bool is_channels_last(const Tensor& tensor) {
  int64_t least = tensor.dims.size() > 1 ? tensor.dims[1] : 1;
  if (tensor.dims.size() > 1 && tensor.dims[1] > 1 && tensor.strides[1] != 1) return false;
  for (size_t i = tensor.dims.size(); i-- > 2;) {
    if (tensor.dims[i] == 1) continue;
    if (tensor.strides[i] < least) return false;
    least = tensor.strides[i] * tensor.dims[i];
  }
  return true;
}

/// Everything that is computed for each element alone computes in f32, on shapes that fit.
void check_pointwise(const Graph& graph) {
  for (const Node* node : nodes_of(graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)) {
    const auto compute = node->how->get<cudnnDataType_t>(CUDNN_ATTR_POINTWISE_MATH_PREC);
    require(compute != CUDNN_DATA_DOUBLE && !is_half(compute), unsupported,
            "pointwise operations in a floating type other than f32");
    const Tensor& y = graph.tensors[static_cast<size_t>(node->outputs.front().tensor)];
    for (const Operand& operand : node->inputs) {
      const Tensor& x = graph.tensors[static_cast<size_t>(operand.tensor)];
      for (size_t i = 0; i < x.dims.size(); ++i)
        require(x.dims[i] == y.dims[i] || x.dims[i] == 1, unsupported, "pointwise: dimension ", i,
                " of tensor ", x.uid, " is ", x.dims[i], ", of the result ", y.dims[i]);
    }
  }
}

void check_no_f64(const Graph& graph, const char* what) {
  for (const Tensor& tensor : graph.tensors)
    require(tensor.type != CUDNN_DATA_DOUBLE, unsupported, what, " of f64 (tensor ", tensor.uid, ")");
}

/// Reductions of a channels-last tensor: to one value, to one a channel, or over the channels.
void check_reduction(const Graph& graph, const Node& node) {
  const Tensor& x = *graph.tensor(node, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
  const Tensor& y = *graph.tensor(node, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
  require(x.dims.size() >= 4 && is_channels_last(x), unsupported,
          "a reduction whose x is not channels-last (tensor ", x.uid, ")");
  const bool keeps_channels = y.dims[1] == x.dims[1];
  bool keeps_rows = true, keeps_none = true;
  for (size_t i = 0; i < x.dims.size(); ++i) {
    if (i == 1) continue;
    keeps_rows = keeps_rows && y.dims[i] == x.dims[i];
    keeps_none = keeps_none && y.dims[i] == 1;
  }
  require(keeps_none || (keeps_rows && y.dims[1] == 1 && !keeps_channels), unsupported,
          "a reduction that is neither of all, of the rows nor of the columns");
}

/// Graphs without a product.
void check_fusion(const Graph& graph) {
  check_no_f64(graph, "pointwise operations and reductions");
  for (const Node& node : graph.nodes) {
    require(node.type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ||
                node.type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
            unsupported, descriptor_name(node.type), " in a graph without a product");
    if (node.type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) check_reduction(graph, node);
  }
  for (const Tensor& tensor : graph.tensors)
    require(tensor.by_value || tensor.dims.size() < 4 || is_channels_last(tensor), unsupported,
            "a pointwise graph whose tensor ", tensor.uid, " is not channels-last");
}

void check_matmul(const Graph& graph, const Node& node) {
  const Tensor& a = *graph.tensor(node, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  const Tensor& b = *graph.tensor(node, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  const auto compute = node.how->get<cudnnDataType_t>(CUDNN_ATTR_MATMUL_COMP_TYPE);
  require(a.dims.size() == 3, unsupported, "a product of ", a.dims.size(), " dimensions: 3 are needed");
  require(is_real(a.type) && a.type == b.type, unsupported,
          "a product of types other than two equal ones of f32, bf16 and f16");
  require(compute == CUDNN_DATA_FLOAT || (compute == CUDNN_DATA_HALF && a.type == CUDNN_DATA_HALF),
          unsupported, "a product in a type other than f32");
  check_no_f64(graph, "products");
}

/// Flash attention: forward of any head size, backward up to 256.
void check_attention(const Graph& graph, const std::vector<const Node*>& products) {
  const bool is_backward = products.size() > 2;
  constexpr int64_t head_multiple = 8, most_backward = 256;
  bool has_statistics = is_backward, has_random = false;
  check_no_f64(graph, "attention");
  for (const Node& node : graph.nodes) {
    has_random = has_random || node.type == CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR;
    if (node.type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR &&
        node.how->get<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE) == CUDNN_POINTWISE_LOG)
      has_statistics = true;
  }
  require(has_statistics, unsupported, "attention without the logarithm of its sums");
  for (const Node* product : products) {
    require(product->how->get<cudnnDataType_t>(CUDNN_ATTR_MATMUL_COMP_TYPE) == CUDNN_DATA_FLOAT, unsupported,
            "attention in a type other than f32");
    for (const auto role : {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC}) {
      const Tensor& tensor = *graph.tensor(*product, role);
      if (tensor.is_virtual) continue;
      require(tensor.dims.size() == 4, unsupported, "attention of ", tensor.dims.size(), " dimensions");
      require(is_half(tensor.type) || (tensor.type == CUDNN_DATA_FLOAT && !is_backward && !has_random),
              unsupported, "attention of this type (tensor ", tensor.uid, ")");
      // The head is the innermost dimension.
      const bool is_turned = tensor.strides[3] != 1;
      const int64_t head = tensor.dims[is_turned ? 2 : 3];
      require(tensor.strides[is_turned ? 2 : 3] == 1, unsupported, "attention whose tensor ", tensor.uid,
              " has gaps between the elements of a head");
      require(head % head_multiple == 0 && (!is_backward || head <= most_backward), unsupported,
              "attention with a head of ", head, " elements: a multiple of 8 is needed",
              is_backward ? ", up to 256" : "");
    }
  }
}

/// What stands behind a convolution: in channels-last anything of one element, otherwise bias and relu.
void check_epilogue(const Graph& graph, const Tensor& x) {
  std::vector<cudnnPointwiseMode_t> modes;
  for (const Node& node : graph.nodes) {
    if (node.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) continue;
    require(node.type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, unsupported,
            descriptor_name(node.type), " behind a convolution");
    modes.push_back(node.how->get<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE));
  }
  if (modes.empty()) return;
  check_no_f64(graph, "operations behind a convolution");
  if (is_channels_last(x)) return;
  const bool is_bias = modes.front() == CUDNN_POINTWISE_ADD &&
                       std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
                         const Tensor* b = graph.tensor(node, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
                         return b != nullptr && b->elements() == b->dims[1];
                       });
  require(is_bias && (modes.size() == 1 || (modes.size() == 2 && modes[1] == CUDNN_POINTWISE_RELU_FWD)),
          unsupported, "behind a convolution that is not channels-last: other than bias and relu");
}

void check_convolution(const Graph& graph, const Node& node) {
  const Tensor &a = graph.tensors[static_cast<size_t>(node.inputs[0].tensor)],
               &b = graph.tensors[static_cast<size_t>(node.inputs[1].tensor)],
               &out = graph.tensors[static_cast<size_t>(node.outputs.front().tensor)];
  const auto compute = node.how->get<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
  require(a.type == b.type, unsupported, "a convolution of two types");
  const bool is_f64 = a.type == CUDNN_DATA_DOUBLE && compute == CUDNN_DATA_DOUBLE;
  const bool is_f32 = is_real(a.type) && compute == CUDNN_DATA_FLOAT;
  const bool is_f16 = a.type == CUDNN_DATA_HALF && compute == CUDNN_DATA_HALF;
  require(is_f64 || is_f32 || is_f16, unsupported,
          "a convolution of this type in this compute type; f64 computes in f64, the others in f32");
  if (node.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) return check_epilogue(graph, a);
  require(graph.nodes.size() == 1, unsupported, "operations beside a gradient of a convolution");
  require(out.type == a.type, unsupported, "a gradient of a convolution in another type than its operands'");
}

void check_norm(const Graph& graph, const Node& node) {
  require(graph.nodes.size() == 1, unsupported, "operations beside a normalization");
  const bool is_forward = node.type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR;
  const auto mode = node.operation->get<cudnnBackendNormMode_t>(
      is_forward ? CUDNN_ATTR_OPERATION_NORM_FWD_MODE : CUDNN_ATTR_OPERATION_NORM_BWD_MODE);
  const Tensor& x = *graph.tensor(
      node, is_forward ? CUDNN_ATTR_OPERATION_NORM_FWD_XDESC : CUDNN_ATTR_OPERATION_NORM_BWD_XDESC);
  check_no_f64(graph, "normalizations");
  constexpr int64_t vector_bytes = 16;
  require(mode != CUDNN_BATCH_NORM || x.dims[1] * element_bytes(x.type) % vector_bytes == 0, unsupported,
          "batch norm of ", x.dims[1], " channels: their bytes are no multiple of 16");
}

}  // namespace

void check_support(const Graph& graph) {
  check_pointwise(graph);
  for (const Tensor& tensor : graph.tensors)
    require(!tensor.is_virtual || tensor.writer >= 0, unsupported, "no operation makes the virtual tensor ",
            tensor.uid);
  std::vector<const Node*> convolutions, norms;
  for (const Node& node : graph.nodes) {
    switch (node.type) {
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        convolutions.push_back(&node);
        break;
      case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
      case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
        norms.push_back(&node);
        break;
      default:
        break;
    }
  }
  const std::vector<const Node*> products = nodes_of(graph, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  const size_t kinds = (convolutions.empty() ? 0 : 1) + (norms.empty() ? 0 : 1) + (products.empty() ? 0 : 1);
  require(kinds <= 1 && convolutions.size() <= 1 && norms.size() <= 1, unsupported,
          "more than one product, convolution or normalization in a graph that is not attention");
  if (!convolutions.empty()) return check_convolution(graph, *convolutions.front());
  if (!norms.empty()) return check_norm(graph, *norms.front());
  if (products.empty()) return check_fusion(graph);
  if (products.size() == 1) return check_matmul(graph, *products.front());
  check_attention(graph, products);
}

/// Amounts of our own, of the kinds that the real library asks for.
int64_t workspace_bytes(const Graph& graph) {
  int64_t products = 0;
  for (const Node& node : graph.nodes) {
    const Tensor& out = graph.tensors[static_cast<size_t>(node.outputs.front().tensor)];
    switch (node.type) {
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        ++products;
        break;
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        return out.elements() * static_cast<int64_t>(sizeof(float));
      case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
      case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
        return 2 * out.dims[1] * static_cast<int64_t>(sizeof(float));
      default:
        break;
    }
  }
  constexpr int64_t attention_bytes = 256;
  return products > 1 ? attention_bytes : 0;
}

}  // namespace tessera::cuda_sim::cudnn
