// Which attributes a descriptor has, of which type and how many values.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <span>

namespace tessera::cuda_sim::cudnn {

enum class Presence {
  required,
  optional,
  read_only,  ///< made when the descriptor is finalized
};

struct AttributeRow {
  cudnnBackendDescriptorType_t descriptor;
  cudnnBackendAttributeName_t attribute;
  const char* name;
  cudnnBackendAttributeType_t type;
  int64_t most;  ///< values
  Presence presence;
};

std::span<const AttributeRow> attribute_rows();
/// Null where the descriptor has no such attribute.
const AttributeRow* find_attribute(cudnnBackendDescriptorType_t descriptor,
                                   cudnnBackendAttributeName_t attribute);
/// Null for a kind of descriptor that is not simulated.
const char* descriptor_name(cudnnBackendDescriptorType_t type);
/// Bytes of a value, 0 for an unknown type.
int64_t bytes_of(cudnnBackendAttributeType_t type);
/// A value that scales a result may be a float or a double, a seed a tensor or an integer.
bool accepts(const AttributeRow& row, cudnnBackendAttributeType_t type);

}  // namespace tessera::cuda_sim::cudnn
