#include "tools/cuda_sim/libraries/cudnn/execution/run.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "tools/cuda_sim/libraries/cudnn/execution/nodes.h"

namespace tessera::cuda_sim::cudnn {

namespace {

/// What is executed, perhaps many times (a captured graph).
struct Execution {
  std::shared_ptr<const Graph> graph;
  std::vector<void*> pointers;  ///< of each tensor; null for a virtual one
  std::vector<Array> by_value;  ///< of each tensor that is passed by value
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
};

bool is_accumulated(const Node& node) {
  switch (node.type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return node.operation->real(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0) != 0;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return node.operation->real(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 0) != 0;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return node.operation->real(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 0) != 0;
    default:
      return false;
  }
}

/// Whether the graph reads what a tensor's memory has before.
bool is_read(const Graph& graph, size_t tensor) {
  const Tensor& one = graph.tensors[tensor];
  if (one.writer < 0) return true;
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return is_accumulated(node) && node.outputs.front().tensor == static_cast<int>(tensor);
  });
}

void run_node(const Node& node, const Graph& graph, NodeValues& values) {
  switch (node.type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return run_pointwise(node, graph, values);
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return run_matmul(node, graph, values);
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return run_reduction(node, graph, values);
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      return run_reshape(node, graph, values);
    case CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR:
      return run_random(node, graph, values);
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
      return run_norm_forward(node, graph, values);
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
      return run_norm_backward(node, graph, values);
    default:
      return run_convolution(node, graph, values);
  }
}

void run(void* data) {
  const Execution& execution = *static_cast<const Execution*>(data);
  const Graph& graph = *execution.graph;
  NodeValues values(graph);
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& tensor = graph.tensors[i];
    if (tensor.by_value)
      values.put_exact(static_cast<int>(i), Array(execution.by_value[i]));
    else if (!tensor.is_virtual && is_read(graph, i))
      values.put_exact(static_cast<int>(i), load(tensor, execution.pointers[i]));
  }
  for (const Node& node : graph.nodes) run_node(node, graph, values);
  // The scratch memory holds no value that a program may rely on.
  if (execution.workspace_bytes > 0) std::memset(execution.workspace, 0xff, execution.workspace_bytes);
  for (size_t i = 0; i < graph.tensors.size(); ++i)
    if (const Tensor& tensor = graph.tensors[i]; tensor.writer >= 0 && !tensor.is_virtual)
      store(tensor, execution.pointers[i], values.get(static_cast<int>(i)));
}

std::map<int64_t, void*> pointers_of(const Descriptor& pack) {
  const Sizes ids = pack.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  std::map<int64_t, void*> all;
  for (size_t i = 0; i < ids.size(); ++i)
    require(all.emplace(ids[i], pointers[i]).second, CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES,
            "the variant pack names tensor ", ids[i], " twice");
  return all;
}

struct Interval {
  const char *begin, *end;
  const Tensor* tensor;  ///< null: the workspace
  bool operator==(const Interval& other) const { return begin == other.begin && end == other.end; }
};

/// What is written shares no memory with the other tensors, but for a tensor in place of one like it.
void check_overlaps(const std::vector<Interval>& all) {
  const auto name = [](const Interval& one) {
    return one.tensor == nullptr ? std::string("the workspace") : text("tensor ", one.tensor->uid);
  };
  for (const Interval& a : all)
    for (const Interval& b : all) {
      const bool a_is_written = a.tensor == nullptr || a.tensor->writer >= 0;
      if (&a == &b || !a_is_written || a.begin >= b.end || b.begin >= a.end) continue;
      const bool is_in_place = a.tensor != nullptr && b.tensor != nullptr && a == b &&
                               a.tensor->strides == b.tensor->strides && a.tensor->type == b.tensor->type &&
                               b.tensor->writer < 0;
      // Tensors may lie between each other's rows (q, k and v of a token).
      const bool is_interleaved =
          a.tensor != nullptr && b.tensor != nullptr && a.begin != b.begin &&
          a.tensor->strides == b.tensor->strides && a.tensor->dims == b.tensor->dims &&
          span_bytes(*a.tensor) > a.tensor->elements() * element_bytes(a.tensor->type);
      require(is_in_place || is_interleaved, CUDNN_STATUS_BAD_PARAM, name(a), " is written and overlaps ",
              name(b));
    }
}

/// The checked pointers of the graph's tensors, and what they cover.
std::vector<tessera_cuda_sim_range> bind(Execution& execution, const Descriptor& pack) {
  const Graph& graph = *execution.graph;
  const std::map<int64_t, void*> given = pointers_of(pack);
  std::vector<tessera_cuda_sim_range> ranges;
  std::vector<Interval> intervals;
  execution.pointers.resize(graph.tensors.size());
  execution.by_value.resize(graph.tensors.size());
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& tensor = graph.tensors[i];
    if (tensor.is_virtual) continue;
    const auto found = given.find(tensor.uid);
    require(found != given.end() && found->second != nullptr, CUDNN_STATUS_BAD_PARAM,
            "the variant pack has no pointer for tensor ", tensor.uid);
    void* const pointer = execution.pointers[i] = found->second;
    if (tensor.by_value) {
      execution.by_value[i] = load(tensor, pointer);  // of the host, read now
      continue;
    }
    require(reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(tensor.alignment) == 0,
            CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "the pointer of tensor ", tensor.uid,
            " is not aligned to ", tensor.alignment, " bytes");
    if (is_read(graph, i)) add_ranges(ranges, tensor, pointer, false);
    if (tensor.writer >= 0) add_ranges(ranges, tensor, pointer, true);
    const auto* begin = static_cast<const char*>(pointer);
    intervals.push_back({begin, begin + span_bytes(tensor), &tensor});
  }
  if (execution.workspace_bytes > 0) {
    require(execution.workspace != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the plan needs ",
            execution.workspace_bytes, " bytes of workspace, the variant pack has none");
    ranges.push_back({execution.workspace, execution.workspace_bytes, 1});
    const auto* begin = static_cast<const char*>(execution.workspace);
    intervals.push_back({begin, begin + execution.workspace_bytes, nullptr});
  }
  check_overlaps(intervals);
  return ranges;
}

}  // namespace

void execute(const DescriptorPointer& plan, const Descriptor& variant_pack, cudaStream_t stream) {
  auto execution = std::make_unique<Execution>();
  execution->graph = plan->graph;
  execution->workspace = variant_pack.get<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  execution->workspace_bytes = static_cast<size_t>(plan->workspace_bytes);
  const std::vector<tessera_cuda_sim_range> ranges = bind(*execution, variant_pack);
  const int error = tessera_cuda_sim_operation(
      "cudnnBackendExecute", stream, ranges.data(), ranges.size(), run,
      [](void* data) { delete static_cast<Execution*>(data); }, execution.release());
  require(error != cudaErrorInvalidValue, CUDNN_STATUS_BAD_PARAM,
          "an operand is not in a live allocation of the device");
  require(error == cudaSuccess, CUDNN_STATUS_EXECUTION_FAILED,
          "the device refused it: ", cudaGetErrorName(static_cast<cudaError_t>(error)));
}

}  // namespace tessera::cuda_sim::cudnn
