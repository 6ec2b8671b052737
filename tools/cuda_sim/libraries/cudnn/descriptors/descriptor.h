// A backend descriptor: values by attribute. After it is finalized it does not change, so that others share
// it.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "tools/cuda_sim/libraries/cudnn/api/failure.h"
#include "tools/cuda_sim/libraries/cudnn/descriptors/attribute_table.h"

namespace tessera::cuda_sim::cudnn {

struct Descriptor;
struct Graph;
using DescriptorPointer = std::shared_ptr<const Descriptor>;

struct Values {
  cudnnBackendAttributeType_t type{};
  int64_t count = 0;
  std::vector<std::byte> bytes{};                ///< unless they are descriptors
  std::vector<DescriptorPointer> descriptors{};  ///< if they are
};

struct Descriptor {
  cudnnBackendDescriptorType_t type{};
  bool is_finalized = false;
  std::map<cudnnBackendAttributeName_t, Values> values;
  std::shared_ptr<const Graph> graph;      ///< of an operation graph, and what is made of it
  std::vector<DescriptorPointer> results;  ///< of heuristics
  int64_t workspace_bytes = 0;             ///< of a plan

  bool has(cudnnBackendAttributeName_t attribute) const { return values.contains(attribute); }
  /// The value, or `otherwise` where it was not set.
  template <class T>
  T get(cudnnBackendAttributeName_t attribute, T otherwise = {}) const {
    const auto found = values.find(attribute);
    if (found == values.end() || found->second.bytes.size() < sizeof(T)) return otherwise;
    T value;
    std::memcpy(&value, found->second.bytes.data(), sizeof(T));
    return value;
  }
  template <class T>
  std::vector<T> all(cudnnBackendAttributeName_t attribute) const {
    const auto found = values.find(attribute);
    if (found == values.end()) return {};
    std::vector<T> list(static_cast<size_t>(found->second.count));
    std::memcpy(list.data(), found->second.bytes.data(), list.size() * sizeof(T));
    return list;
  }
  /// A float or a double, as a double.
  double real(cudnnBackendAttributeName_t attribute, double otherwise) const;
  /// The first descriptor, or null.
  DescriptorPointer part(cudnnBackendAttributeName_t attribute) const;
};

/// What a cudnnBackendDescriptor_t points to.
struct DescriptorHandle {
  std::shared_ptr<Descriptor> descriptor = std::make_shared<Descriptor>();
};

/// Throws a Failure for null and for what is no live descriptor.
DescriptorHandle& handle_of(cudnnBackendDescriptor_t descriptor);
void add_handle(DescriptorHandle* handle);
/// Null where there is none.
DescriptorHandle* take_handle(cudnnBackendDescriptor_t descriptor);

/// The work of the calls of the same names; throw a Failure.
/// @{
void set_attribute(Descriptor& descriptor, cudnnBackendAttributeName_t attribute,
                   cudnnBackendAttributeType_t type, int64_t count, const void* elements);
void get_attribute(const Descriptor& descriptor, cudnnBackendAttributeName_t attribute,
                   cudnnBackendAttributeType_t type, int64_t requested, int64_t* count, void* elements);
void finalize(Descriptor& descriptor);
/// @}

}  // namespace tessera::cuda_sim::cudnn
