// cuDNN's descriptors, owned: an attribute's type follows from the value's.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cudnn_graphs {

/// What a call refused: the step, the status and the library's message.
struct Refused {
  std::string step;
  cudnnStatus_t status;
  std::string message;
};

inline void require(cudnnStatus_t status, const std::string& step) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char message[512] = "";
  cudnnGetLastErrorString(message, sizeof message);
  throw Refused{step, status, message};
}

#define CUDNN_GRAPHS_TYPE(type, name)                              \
  inline cudnnBackendAttributeType_t attribute_type(const type&) { \
    return name;                                                   \
  }
CUDNN_GRAPHS_TYPE(cudnnHandle_t, CUDNN_TYPE_HANDLE)
CUDNN_GRAPHS_TYPE(cudnnDataType_t, CUDNN_TYPE_DATA_TYPE)
CUDNN_GRAPHS_TYPE(bool, CUDNN_TYPE_BOOLEAN)
CUDNN_GRAPHS_TYPE(int64_t, CUDNN_TYPE_INT64)
CUDNN_GRAPHS_TYPE(float, CUDNN_TYPE_FLOAT)
CUDNN_GRAPHS_TYPE(double, CUDNN_TYPE_DOUBLE)
CUDNN_GRAPHS_TYPE(char, CUDNN_TYPE_CHAR)
CUDNN_GRAPHS_TYPE(cudnnConvolutionMode_t, CUDNN_TYPE_CONVOLUTION_MODE)
CUDNN_GRAPHS_TYPE(cudnnBackendHeurMode_t, CUDNN_TYPE_HEUR_MODE)
CUDNN_GRAPHS_TYPE(cudnnPointwiseMode_t, CUDNN_TYPE_POINTWISE_MODE)
CUDNN_GRAPHS_TYPE(cudnnBackendDescriptor_t, CUDNN_TYPE_BACKEND_DESCRIPTOR)
CUDNN_GRAPHS_TYPE(cudnnReduceTensorOp_t, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE)
CUDNN_GRAPHS_TYPE(cudnnResampleMode_t, CUDNN_TYPE_RESAMPLE_MODE)
CUDNN_GRAPHS_TYPE(cudnnPaddingMode_t, CUDNN_TYPE_PADDING_MODE)
CUDNN_GRAPHS_TYPE(cudnnBackendNormMode_t, CUDNN_TYPE_NORM_MODE)
CUDNN_GRAPHS_TYPE(cudnnBackendNormFwdPhase_t, CUDNN_TYPE_NORM_FWD_PHASE)
CUDNN_GRAPHS_TYPE(cudnnRngDistribution_t, CUDNN_TYPE_RNG_DISTRIBUTION)
#undef CUDNN_GRAPHS_TYPE

class Descriptor {
 public:
  Descriptor(cudnnBackendDescriptorType_t type, std::string name) : name_(std::move(name)) {
    require(cudnnBackendCreateDescriptor(type, &handle_), "create " + name_);
  }
  ~Descriptor() {
    if (handle_ != nullptr) cudnnBackendDestroyDescriptor(handle_);
  }
  Descriptor(Descriptor&& other) noexcept
      : name_(std::move(other.name_)), handle_(std::exchange(other.handle_, nullptr)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  template <class T>
  void set(cudnnBackendAttributeName_t attribute, const T& value) {
    set(attribute, attribute_type(value), 1, &value);
  }
  template <class T>
  void set(cudnnBackendAttributeName_t attribute, const std::vector<T>& values) {
    set(attribute, attribute_type(T{}), static_cast<int64_t>(values.size()), values.data());
  }
  void set(cudnnBackendAttributeName_t attribute, const std::string& text) {
    set(attribute, CUDNN_TYPE_CHAR, static_cast<int64_t>(text.size()), text.data());
  }
  void set(cudnnBackendAttributeName_t attribute, const Descriptor& other) { set(attribute, other.get()); }
  void set(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, int64_t count,
           const void* values) {
    require(cudnnBackendSetAttribute(handle_, attribute, type, count, values),
            name_ + ", attribute " + std::to_string(attribute));
  }
  void finalize() { require(cudnnBackendFinalize(handle_), name_); }
  cudnnBackendDescriptor_t get() const { return handle_; }

 private:
  std::string name_;
  cudnnBackendDescriptor_t handle_ = nullptr;
};

}  // namespace cudnn_graphs
