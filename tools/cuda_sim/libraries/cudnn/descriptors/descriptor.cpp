#include "tools/cuda_sim/libraries/cudnn/descriptors/descriptor.h"

#include <algorithm>
#include <mutex>
#include <unordered_set>

namespace tessera::cuda_sim::cudnn {

namespace {

/// The live handles.
struct Handles {
  std::mutex mutex;
  std::unordered_set<void*> live;
};
Handles& handles() {
  static Handles all;
  return all;
}

const AttributeRow& row_of(const Descriptor& descriptor, cudnnBackendAttributeName_t attribute,
                           cudnnBackendAttributeType_t type) {
  const char* const name = descriptor_name(descriptor.type);
  const AttributeRow* row = find_attribute(descriptor.type, attribute);
  require(row != nullptr, CUDNN_STATUS_BAD_PARAM, name, " has no attribute ", static_cast<int>(attribute),
          " on the simulated card");
  require(accepts(*row, type), CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, row->name, ": expected values of type ",
          static_cast<int>(row->type), ", got type ", static_cast<int>(type));
  return *row;
}

/// The kinds of descriptors that an attribute takes: what its name says.
bool takes(cudnnBackendAttributeName_t attribute, cudnnBackendDescriptorType_t type) {
  switch (attribute) {
    case CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR:
      return type == CUDNN_BACKEND_POINTWISE_DESCRIPTOR;
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC:
      return type == CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR;
    case CUDNN_ATTR_OPERATION_MATMUL_DESC:
      return type == CUDNN_BACKEND_MATMUL_DESCRIPTOR;
    case CUDNN_ATTR_OPERATION_REDUCTION_DESC:
      return type == CUDNN_BACKEND_REDUCTION_DESCRIPTOR;
    case CUDNN_ATTR_OPERATION_RNG_DESC:
      return type == CUDNN_BACKEND_RNG_DESCRIPTOR;
    case CUDNN_ATTR_OPERATIONGRAPH_OPS:
      return std::string(descriptor_name(type)).starts_with("CUDNN_BACKEND_OPERATION_");
    case CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH:
    case CUDNN_ATTR_ENGINE_OPERATION_GRAPH:
      return type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      return type == CUDNN_BACKEND_ENGINE_DESCRIPTOR;
    case CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG:
      return type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
    case CUDNN_ATTR_ENGINEHEUR_DEVICEPROP:
    case CUDNN_ATTR_ENGINE_DEVICEPROP:
    case CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP:
      return type == CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR;
    default:
      return type == CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  }
}

DescriptorPointer part_of(const AttributeRow& row, cudnnBackendDescriptor_t handle) {
  const DescriptorPointer part = handle_of(handle).descriptor;
  require(part->is_finalized, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, row.name, ": the ",
          descriptor_name(part->type), " is not finalized");
  require(takes(row.attribute, part->type), CUDNN_STATUS_BAD_PARAM, row.name, ": got a ",
          descriptor_name(part->type));
  return part;
}

/// What finalizing made, in place of a set value.
bool get_made(const Descriptor& descriptor, cudnnBackendAttributeName_t attribute, Values& made) {
  const auto number = [&](int64_t value) {
    made = {.type = CUDNN_TYPE_INT64, .count = 1};
    made.bytes.resize(sizeof value);
    std::memcpy(made.bytes.data(), &value, sizeof value);
    return true;
  };
  switch (attribute) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      made = {.type = CUDNN_TYPE_BACKEND_DESCRIPTOR,
              .count = static_cast<int64_t>(descriptor.results.size()),
              .descriptors = descriptor.results};
      return true;
    case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT:
      return number(1);
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
      return number(descriptor.workspace_bytes);
    default: {
      const AttributeRow* row = find_attribute(descriptor.type, attribute);
      if (row->presence != Presence::read_only) return false;
      made = {.type = row->type};
      return true;
    }
  }
}

}  // namespace

double Descriptor::real(cudnnBackendAttributeName_t attribute, double otherwise) const {
  const auto found = values.find(attribute);
  if (found == values.end()) return otherwise;
  return found->second.type == CUDNN_TYPE_FLOAT ? static_cast<double>(get<float>(attribute))
                                                : get<double>(attribute);
}

DescriptorPointer Descriptor::part(cudnnBackendAttributeName_t attribute) const {
  const auto found = values.find(attribute);
  return found == values.end() || found->second.descriptors.empty() ? nullptr
                                                                    : found->second.descriptors.front();
}

DescriptorHandle& handle_of(cudnnBackendDescriptor_t descriptor) {
  require(descriptor != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no descriptor");
  const std::lock_guard lock(handles().mutex);
  require(handles().live.contains(descriptor), CUDNN_STATUS_BAD_PARAM,
          "what is given is no descriptor, or a destroyed one");
  return *static_cast<DescriptorHandle*>(descriptor);
}

void add_handle(DescriptorHandle* handle) {
  const std::lock_guard lock(handles().mutex);
  handles().live.insert(handle);
}

DescriptorHandle* take_handle(cudnnBackendDescriptor_t descriptor) {
  const std::lock_guard lock(handles().mutex);
  return handles().live.erase(descriptor) != 0 ? static_cast<DescriptorHandle*>(descriptor) : nullptr;
}

void set_attribute(Descriptor& descriptor, cudnnBackendAttributeName_t attribute,
                   cudnnBackendAttributeType_t type, int64_t count, const void* elements) {
  require(!descriptor.is_finalized, CUDNN_STATUS_BAD_PARAM, descriptor_name(descriptor.type),
          " is finalized already");
  const AttributeRow& row = row_of(descriptor, attribute, type);
  require(row.presence != Presence::read_only, CUDNN_STATUS_NOT_SUPPORTED, row.name, " cannot be set");
  require(count > 0 && elements != nullptr, CUDNN_STATUS_BAD_PARAM, row.name, ": no values");
  require(count <= row.most, CUDNN_STATUS_BAD_PARAM, row.name, ": expected at most ", row.most,
          " values, got ", count);
  Values values{.type = type, .count = count};
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* list = static_cast<const cudnnBackendDescriptor_t*>(elements);
    for (int64_t i = 0; i < count; ++i) values.descriptors.push_back(part_of(row, list[i]));
  } else {
    const auto* from = static_cast<const std::byte*>(elements);
    values.bytes.assign(from, from + count * bytes_of(type));
  }
  descriptor.values[attribute] = std::move(values);
}

void get_attribute(const Descriptor& descriptor, cudnnBackendAttributeName_t attribute,
                   cudnnBackendAttributeType_t type, int64_t requested, int64_t* count, void* elements) {
  require(descriptor.is_finalized, CUDNN_STATUS_NOT_INITIALIZED, descriptor_name(descriptor.type),
          " is not finalized");
  const AttributeRow& row = row_of(descriptor, attribute, type);
  Values made;
  if (!get_made(descriptor, attribute, made)) {
    const auto found = descriptor.values.find(attribute);
    require(found != descriptor.values.end(), CUDNN_STATUS_BAD_PARAM, row.name, " was not set");
    made = found->second;
  }
  if (count != nullptr) *count = made.count;
  const int64_t copied = std::min(requested, made.count);
  if (copied <= 0) return;
  require(elements != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, row.name, ": no place for the values");
  if (made.type != CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    std::memcpy(elements, made.bytes.data(), static_cast<size_t>(copied * bytes_of(made.type)));
    return;
  }
  // The caller's descriptors become copies.
  const auto* list = static_cast<const cudnnBackendDescriptor_t*>(elements);
  for (int64_t i = 0; i < copied; ++i) {
    DescriptorHandle& to = handle_of(list[i]);
    const Descriptor& from = *made.descriptors[static_cast<size_t>(i)];
    require(to.descriptor->type == from.type, CUDNN_STATUS_BAD_PARAM, row.name, ": expected a ",
            descriptor_name(from.type), ", got a ", descriptor_name(to.descriptor->type));
    to.descriptor = std::make_shared<Descriptor>(from);
  }
}

}  // namespace tessera::cuda_sim::cudnn
