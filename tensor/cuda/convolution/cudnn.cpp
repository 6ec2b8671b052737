#include "tensor/cuda/convolution/cudnn.h"

#include <map>
#include <string>
#include <string_view>

#include "tensor/cuda/runtime/check.h"
#include "tensor/cuda/runtime/device_guard.h"
#include "tensor/cuda/runtime/library.h"
#include "tensor/cuda/runtime/stream.h"
#include "tensor/cuda/runtime/symbols.h"
#include "tensor/error.h"
#include "tensor/tensor.h"

namespace {

constexpr const char* library = "libcudnn.so.9";

}  // namespace

/// Defines cuDNN's function `name`, which passes its call on to the library that is loaded.
#define TESSERA_FORWARD(name, parameters, arguments)                                    \
  TESSERA_STAND_IN cudnnStatus_t CUDNNWINAPI name parameters {                          \
    using Function = cudnnStatus_t(CUDNNWINAPI*) parameters;                            \
    static const auto function =                                                        \
        reinterpret_cast<Function>(tessera::cuda_runtime::find_symbol(library, #name)); \
    return function != nullptr ? function arguments : CUDNN_STATUS_NOT_INITIALIZED;     \
  }

extern "C" {

TESSERA_FORWARD(cudnnCreate, (cudnnHandle_t * handle), (handle))
TESSERA_FORWARD(cudnnDestroy, (cudnnHandle_t handle), (handle))
TESSERA_FORWARD(cudnnSetStream, (cudnnHandle_t handle, cudaStream_t stream), (handle, stream))
TESSERA_FORWARD(cudnnBackendCreateDescriptor,
                (cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor), (type, descriptor))
TESSERA_FORWARD(cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t descriptor), (descriptor))
TESSERA_FORWARD(cudnnBackendFinalize, (cudnnBackendDescriptor_t descriptor), (descriptor))
TESSERA_FORWARD(cudnnBackendSetAttribute,
                (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t attribute,
                 cudnnBackendAttributeType_t type, int64_t count, const void* values),
                (descriptor, attribute, type, count, values))
TESSERA_FORWARD(cudnnBackendGetAttribute,
                (cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t attribute,
                 cudnnBackendAttributeType_t type, int64_t wanted, int64_t* count, void* values),
                (descriptor, attribute, type, wanted, count, values))
TESSERA_FORWARD(cudnnBackendExecute,
                (cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack),
                (handle, plan, pack))

}  // extern "C"

namespace tessera::cuda_runtime {
namespace {

std::string last_message() {
  using Function = void (*)(char*, size_t);
  static const auto function = reinterpret_cast<Function>(find_symbol(library, "cudnnGetLastErrorString"));
  char message[512] = "";
  if (function != nullptr) function(message, sizeof message);
  return message;
}

std::string name_of(cudnnStatus_t status) {
  using Function = const char* (*)(cudnnStatus_t);
  static const auto function = reinterpret_cast<Function>(find_symbol(library, "cudnnGetErrorString"));
  return function != nullptr ? function(status) : text(library, " was not found beside the CUDA runtime");
}

}  // namespace

void check(cudnnStatus_t status, const char* call, std::source_location place) {
  if (status == CUDNN_STATUS_SUCCESS) [[likely]]
    return;
  const std::string_view file = place.file_name();
  const size_t at = file.rfind("/tensor/");
  const std::string message = last_message();
  throw DeviceError(text(call, " (", at == std::string_view::npos ? file : file.substr(at + 1), ":",
                         place.line(), "): ", name_of(status), message.empty() ? "" : ": ", message));
}

cudnnHandle_t cudnn_handle(Device device) {
  // A handle belongs to one thread: its stream is set by each call.
  struct Handles {
    std::map<int, cudnnHandle_t> by_device;
    ~Handles() {
      for (const auto& [index, handle] : by_device)
        if (handle != nullptr) cudnnDestroy(handle);
    }
  };
  thread_local Handles handles;
  cudnnHandle_t& handle = handles.by_device[device.index];
  if (handle == nullptr) {
    const DeviceGuard guard(device);
    check(cudnnCreate(&handle), "cudnnCreate");
  }
  check(cudnnSetStream(handle, current_stream(device)), "cudnnSetStream");
  return handle;
}

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type) {
  check(cudnnBackendCreateDescriptor(type, &descriptor_), "cudnnBackendCreateDescriptor");
}
CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) cudnnBackendDestroyDescriptor(descriptor_);
}
const CudnnDescriptor& CudnnDescriptor::set(cudnnBackendAttributeName_t attribute,
                                            cudnnBackendAttributeType_t type, int64_t count,
                                            const void* values) const {
  check(cudnnBackendSetAttribute(descriptor_, attribute, type, count, values), "cudnnBackendSetAttribute");
  return *this;
}
void CudnnDescriptor::finalize() const {
  check(cudnnBackendFinalize(descriptor_), "cudnnBackendFinalize");
}

CudnnPlan::CudnnPlan(const char* name, Device device, std::vector<CudnnDescriptor> parts,
                     const std::vector<cudnnBackendDescriptor_t>& operations)
    : parts_(std::move(parts)) {
  const DeviceGuard guard(device);
  const cudnnHandle_t handle = cudnn_handle(device);
  CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  graph.finalize();
  const bool is_found =
      choose(handle, graph, CUDNN_HEUR_MODE_A) || choose(handle, graph, CUDNN_HEUR_MODE_FALLBACK);
  parts_.push_back(std::move(graph));
  require<DeviceError>(is_found, name, ": no engine of cuDNN takes it on ", device, ": ", last_message());
}

/// The first configuration whose plan can be finalized.
bool CudnnPlan::choose(cudnnHandle_t handle, const CudnnDescriptor& graph, cudnnBackendHeurMode_t mode) {
  const CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (cudnnBackendFinalize(heuristics.get()) != CUDNN_STATUS_SUCCESS) return false;
  const auto get = [](const CudnnDescriptor& from, cudnnBackendAttributeName_t attribute,
                      cudnnBackendAttributeType_t type, int64_t wanted, void* values) {
    int64_t count = 0;
    check(cudnnBackendGetAttribute(from.get(), attribute, type, wanted, &count, values),
          "cudnnBackendGetAttribute");
    return count;
  };
  const int64_t count =
      get(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::vector<CudnnDescriptor> configurations;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (int64_t i = 0; i < count; ++i)
    handles.push_back(configurations.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  if (count > 0)
    get(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, handles.data());
  for (CudnnDescriptor& configuration : configurations) {
    CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle)
        .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    if (cudnnBackendFinalize(plan.get()) != CUDNN_STATUS_SUCCESS) continue;
    get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &workspace_bytes_);
    plan_ = plan.get();
    parts_.push_back(std::move(configuration));
    parts_.push_back(std::move(plan));
    return true;
  }
  return false;
}

void CudnnPlan::execute(Device device, const std::vector<int64_t>& ids,
                        const std::vector<void*>& pointers) const {
  const DeviceGuard guard(device);
  const Tensor workspace = Tensor::empty({workspace_bytes_}, u8, device);
  const CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids)
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers);
  if (workspace_bytes_ > 0)
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace.raw_data());
  pack.finalize();
  check(cudnnBackendExecute(cudnn_handle(device), plan_, pack.get()), "cudnnBackendExecute");
}

}  // namespace tessera::cuda_runtime
