#pragma once  // internal

#include <cudnn_graph.h>

#include <source_location>
#include <utility>
#include <vector>

#include "tensor/device.h"

/// cuDNN, loaded at its first use.
namespace tessera::cuda_runtime {

/// Throws DeviceError for a status that is not success, naming the call, its place, the status and cuDNN's
/// own message.
void check(cudnnStatus_t status, const char* call,
           std::source_location place = std::source_location::current());

/// This thread's handle of a device, on the device's current stream; it lives until the thread ends. Throws
/// DeviceError where there is no cuDNN.
cudnnHandle_t cudnn_handle(Device device);

/// A backend descriptor, owned.
class CudnnDescriptor {
 public:
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  CudnnDescriptor(const CudnnDescriptor&) = delete;
  CudnnDescriptor& operator=(const CudnnDescriptor&) = delete;

  template <class Value>
  const CudnnDescriptor& set(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type,
                             const Value& value) const {
    return set(attribute, type, 1, &value);
  }
  template <class Value>
  const CudnnDescriptor& set(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type,
                             const std::vector<Value>& values) const {
    return set(attribute, type, static_cast<int64_t>(values.size()), values.data());
  }
  const CudnnDescriptor& set(cudnnBackendAttributeName_t attribute, const CudnnDescriptor& other) const {
    return set(attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.descriptor_);
  }
  void finalize() const;
  cudnnBackendDescriptor_t get() const { return descriptor_; }

 private:
  const CudnnDescriptor& set(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type,
                             int64_t count, const void* values) const;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

/// How a graph is executed: its plan, and what keeps it alive.
class CudnnPlan {
 public:
  /// Plans the operations by cuDNN's heuristics, the fallback ones last. Throws DeviceError, with `name`,
  /// where no engine takes the graph.
  CudnnPlan(const char* name, Device device, std::vector<CudnnDescriptor> parts,
            const std::vector<cudnnBackendDescriptor_t>& operations);

  /// Executes it on the device's current stream. `ids` and `pointers` name the graph's tensors.
  void execute(Device device, const std::vector<int64_t>& ids, const std::vector<void*>& pointers) const;

 private:
  bool choose(cudnnHandle_t handle, const CudnnDescriptor& graph, cudnnBackendHeurMode_t mode);

  std::vector<CudnnDescriptor> parts_;
  cudnnBackendDescriptor_t plan_ = nullptr;
  int64_t workspace_bytes_ = 0;
};

}  // namespace tessera::cuda_runtime
