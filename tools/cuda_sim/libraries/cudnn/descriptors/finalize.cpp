// What finalizing a descriptor checks, and what it makes.
#include <cmath>

#include "tools/cuda_sim/libraries/cudnn/descriptors/descriptor.h"
#include "tools/cuda_sim/libraries/cudnn/graph/graph.h"

namespace tessera::cuda_sim::cudnn {

namespace {

constexpr cudnnStatus_t bad = CUDNN_STATUS_BAD_PARAM;

void finalize_tensor(const Descriptor& descriptor) {
  const Tensor tensor = read_tensor(descriptor);
  const int64_t bytes = element_bytes(tensor.type);
  require(bytes > 0, CUDNN_STATUS_NOT_SUPPORTED, "tensor ", tensor.uid, ": data type ",
          static_cast<int>(tensor.type), " is not simulated");
  require(tensor.dims.size() == tensor.strides.size(), bad, "tensor ", tensor.uid, " has ",
          tensor.dims.size(), " dimensions and ", tensor.strides.size(), " strides");
  require(tensor.alignment > 0 && tensor.alignment % bytes == 0, bad, "tensor ", tensor.uid,
          ": expected an alignment that is a multiple of its element's ", bytes, " bytes, got ",
          tensor.alignment);
  for (size_t i = 0; i < tensor.dims.size(); ++i)
    require(tensor.dims[i] >= 0 && tensor.strides[i] >= 0, bad, "tensor ", tensor.uid,
            ": a negative extent or stride in dimension ", i);
  require(!tensor.by_value || tensor.elements() == 1, bad, "tensor ", tensor.uid,
          " is passed by value, and has ", tensor.elements(), " elements");
  for (const auto attribute : {CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, CUDNN_ATTR_TENSOR_VECTOR_COUNT})
    require(!descriptor.has(attribute), CUDNN_STATUS_NOT_SUPPORTED,
            find_attribute(descriptor.type, attribute)->name, " is not simulated");
  require(descriptor.get(CUDNN_ATTR_TENSOR_REORDERING_MODE, CUDNN_TENSOR_REORDERING_NONE) ==
              CUDNN_TENSOR_REORDERING_NONE,
          CUDNN_STATUS_NOT_SUPPORTED, "CUDNN_ATTR_TENSOR_REORDERING_MODE is not simulated");
}

void finalize_convolution(const Descriptor& descriptor) {
  const auto spatial = static_cast<size_t>(descriptor.get<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
  require(spatial >= 1 && spatial <= 3, bad, "expected 1 to 3 spatial dimensions, got ", spatial);
  const auto check = [&](cudnnBackendAttributeName_t attribute, int64_t least) {
    const Sizes values = descriptor.all<int64_t>(attribute);
    const char* const name = find_attribute(descriptor.type, attribute)->name;
    require(values.size() == spatial, bad, name, ": expected ", spatial, " values, got ", values.size());
    for (const int64_t value : values)
      require(value >= least, bad, name, ": expected at least ", least, ", got ", value);
  };
  check(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0);
  check(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 0);
  check(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1);
  check(CUDNN_ATTR_CONVOLUTION_DILATIONS, 1);
}

void finalize_random(const Descriptor& descriptor) {
  if (descriptor.get<cudnnRngDistribution_t>(CUDNN_ATTR_RNG_DISTRIBUTION) != CUDNN_RNG_DISTRIBUTION_BERNOULLI)
    return;
  const double keep = descriptor.real(CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, -1);
  require(keep >= 0 && keep <= 1, bad, "expected a probability of 0 to 1, got ", keep);
}

/// The one engine's configuration.
void finalize_heuristics(Descriptor& descriptor) {
  const DescriptorPointer graph = descriptor.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  check_support(*graph->graph);
  auto engine = std::make_shared<Descriptor>();
  engine->type = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
  engine->values[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] = {
      .type = CUDNN_TYPE_BACKEND_DESCRIPTOR, .count = 1, .descriptors = {graph}};
  engine->values[CUDNN_ATTR_ENGINE_GLOBAL_INDEX] = {
      .type = CUDNN_TYPE_INT64, .count = 1, .bytes = std::vector<std::byte>(sizeof(int64_t))};
  finalize(*engine);
  auto configuration = std::make_shared<Descriptor>();
  configuration->type = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
  configuration->values[CUDNN_ATTR_ENGINECFG_ENGINE] = {
      .type = CUDNN_TYPE_BACKEND_DESCRIPTOR, .count = 1, .descriptors = {engine}};
  finalize(*configuration);
  descriptor.results = {configuration};
}

void finalize_engine(Descriptor& descriptor) {
  const auto index = descriptor.get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  require(index == 0, bad, "expected engine 0, the only one, got ", index);
  descriptor.graph = descriptor.part(CUDNN_ATTR_ENGINE_OPERATION_GRAPH)->graph;
  check_support(*descriptor.graph);
}

void finalize_plan(Descriptor& descriptor) {
  const DescriptorPointer configuration = descriptor.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  require(descriptor.has(CUDNN_ATTR_EXECUTION_PLAN_HANDLE) ||
              descriptor.has(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP),
          bad, "CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR has neither a handle nor device properties");
  descriptor.graph = configuration->graph;
  descriptor.workspace_bytes = configuration->workspace_bytes;
}

void finalize_variant_pack(const Descriptor& descriptor) {
  const Sizes ids = descriptor.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = descriptor.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  require(ids.size() == pointers.size(), bad, "a variant pack has ", ids.size(), " tensors and ",
          pointers.size(), " pointers");
}

void require_values(const Descriptor& descriptor) {
  for (const AttributeRow& row : attribute_rows())
    if (row.descriptor == descriptor.type && row.presence == Presence::required)
      require(descriptor.has(row.attribute),
              descriptor.type == CUDNN_BACKEND_ENGINE_DESCRIPTOR ? CUDNN_STATUS_BAD_PARAM_NULL_POINTER
              : descriptor.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR
                  ? CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED
                  : bad,
              row.name, " is not set");
}

}  // namespace

void finalize(Descriptor& descriptor) {
  require(!descriptor.is_finalized, bad, descriptor_name(descriptor.type), " is finalized already");
  require_values(descriptor);
  switch (descriptor.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      finalize_tensor(descriptor);
      break;
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      finalize_convolution(descriptor);
      break;
    case CUDNN_BACKEND_RNG_DESCRIPTOR:
      finalize_random(descriptor);
      break;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      descriptor.graph = build_graph(descriptor.values[CUDNN_ATTR_OPERATIONGRAPH_OPS].descriptors);
      break;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      finalize_heuristics(descriptor);
      break;
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
      finalize_engine(descriptor);
      break;
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
      descriptor.graph = descriptor.part(CUDNN_ATTR_ENGINECFG_ENGINE)->graph;
      descriptor.workspace_bytes = workspace_bytes(*descriptor.graph);
      break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      finalize_plan(descriptor);
      break;
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      finalize_variant_pack(descriptor);
      break;
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
    case CUDNN_BACKEND_MATMUL_DESCRIPTOR:
    case CUDNN_BACKEND_REDUCTION_DESCRIPTOR:
    case CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR:
      break;
    default:
      check_operation(descriptor);
  }
  descriptor.is_finalized = true;
}

}  // namespace tessera::cuda_sim::cudnn
