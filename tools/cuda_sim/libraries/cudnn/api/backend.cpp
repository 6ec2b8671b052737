// The backend descriptor API.
#include "tools/cuda_sim/libraries/cudnn/descriptors/descriptor.h"
#include "tools/cuda_sim/libraries/cudnn/execution/run.h"

using namespace tessera::cuda_sim::cudnn;

extern "C" {

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  return guarded("cudnnBackendCreateDescriptor", [&] {
    require(descriptor != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no place for the descriptor");
    require(descriptor_name(type) != nullptr, CUDNN_STATUS_NOT_SUPPORTED, "descriptors of type ",
            static_cast<int>(type), " are not simulated");
    auto made = std::make_unique<DescriptorHandle>();
    made->descriptor->type = type;
    add_handle(made.get());
    *descriptor = made.release();
  });
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return guarded("cudnnBackendDestroyDescriptor", [&] {
    DescriptorHandle* const handle = take_handle(descriptor);
    require(handle != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no live descriptor");
    delete handle;
  });
}

cudnnStatus_t cudnnBackendInitialize(cudnnBackendDescriptor_t descriptor) {
  return guarded("cudnnBackendInitialize", [&] {
    DescriptorHandle& handle = handle_of(descriptor);
    const cudnnBackendDescriptorType_t type = handle.descriptor->type;
    handle.descriptor = std::make_shared<Descriptor>();
    handle.descriptor->type = type;
  });
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t attribute,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* elements) {
  return guarded("cudnnBackendSetAttribute",
                 [&] { set_attribute(*handle_of(descriptor).descriptor, attribute, type, count, elements); });
}

cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t attribute,
                                       cudnnBackendAttributeType_t type, int64_t requested, int64_t* count,
                                       void* elements) {
  return guarded("cudnnBackendGetAttribute", [&] {
    const auto kept = handle_of(descriptor).descriptor;
    get_attribute(*kept, attribute, type, requested, count, elements);
  });
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return guarded("cudnnBackendFinalize", [&] { finalize(*handle_of(descriptor).descriptor); });
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variant_pack) {
  return guarded("cudnnBackendExecute", [&] {
    require(handle != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no handle");
    cudaStream_t stream = nullptr;
    cudnnGetStream(handle, &stream);
    const auto has = [](const Descriptor& one, cudnnBackendDescriptorType_t type) {
      require(one.type == type, CUDNN_STATUS_BAD_PARAM, "expected a ", descriptor_name(type), ", got a ",
              descriptor_name(one.type));
      require(one.is_finalized, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "the ", descriptor_name(type),
              " is not finalized");
    };
    const DescriptorPointer what = handle_of(plan).descriptor, with = handle_of(variant_pack).descriptor;
    has(*what, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    has(*with, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    execute(what, *with, stream);
  });
}

}  // extern "C"
