// libcuda.so.1 without a card: the real cuDNN finalizes plans, for which it compiles kernels and loads them
// here, into nothing. What needs a device says CUDA_ERROR_STUB_LIBRARY.
#include <cstddef>

namespace {

using Result = int;
constexpr Result success = 0, stub_library = 34;  // CUDA_SUCCESS, CUDA_ERROR_STUB_LIBRARY
int nothing = 0;                                  // what handles point to

}  // namespace

#define TESSERA_SUCCEEDS(name) \
  extern "C" Result name() {   \
    return success;            \
  }
#define TESSERA_REFUSES(name) \
  extern "C" Result name() {  \
    return stub_library;      \
  }

// What a plan asks of the driver.
extern "C" {
Result cuLibraryLoadData(void** library, const void*) {
  *library = &nothing;
  return success;
}
Result cuLibraryGetKernel(void** kernel, void*, const char*) {
  *kernel = &nothing;
  return success;
}
Result cuKernelGetFunction(void** function, void*) {
  *function = &nothing;
  return success;
}
Result cuModuleLoadData(void** module, const void*) {
  *module = &nothing;
  return success;
}
Result cuModuleLoadDataEx(void** module, const void*, unsigned, void*, void*) {
  *module = &nothing;
  return success;
}
Result cuModuleGetFunction(void** function, void*, const char*) {
  *function = &nothing;
  return success;
}
Result cuLibraryGetModule(void** module, void*) {
  *module = &nothing;
  return success;
}
Result cuKernelGetAttribute(int* value, int, void*, int) {
  *value = 0;
  return success;
}
Result cuFuncGetAttribute(int* value, int, void*) {
  *value = 0;
  return success;
}
Result cuLibraryGetGlobal(void** pointer, size_t* bytes, void*, const char*) {
  *pointer = &nothing;
  if (bytes != nullptr) *bytes = sizeof nothing;
  return success;
}
Result cuGetErrorString(Result, const char** text) {
  *text = "a stub of the driver";
  return success;
}
Result cuGetErrorName(Result, const char** text) {
  *text = "CUDA_ERROR_STUB_LIBRARY";
  return success;
}
}
TESSERA_SUCCEEDS(cuLibraryUnload)
TESSERA_SUCCEEDS(cuModuleUnload)
TESSERA_SUCCEEDS(cuKernelSetAttribute)
TESSERA_SUCCEEDS(cuFuncSetAttribute)
TESSERA_SUCCEEDS(cuFuncSetCacheConfig)
TESSERA_SUCCEEDS(cuFuncSetSharedMemConfig)
TESSERA_SUCCEEDS(cuTensorMapEncodeTiled)
TESSERA_SUCCEEDS(cuTensorMapEncodeIm2col)

// There is no device.
TESSERA_REFUSES(cuInit)
TESSERA_REFUSES(cuDriverGetVersion)
TESSERA_REFUSES(cuDeviceGetCount)
TESSERA_REFUSES(cuDeviceGet)
TESSERA_REFUSES(cuDeviceGetAttribute)
TESSERA_REFUSES(cuCtxGetCurrent)
TESSERA_REFUSES(cuCtxSetCurrent)
TESSERA_REFUSES(cuCtxGetDevice)
TESSERA_REFUSES(cuCtxPushCurrent)
TESSERA_REFUSES(cuCtxPopCurrent)
TESSERA_REFUSES(cuDevicePrimaryCtxRetain)
TESSERA_REFUSES(cuGetProcAddress)
TESSERA_REFUSES(cuGetProcAddress_v2)
TESSERA_REFUSES(cuGetExportTable)
TESSERA_REFUSES(cuLaunchKernel)
TESSERA_REFUSES(cuLaunchKernelEx)
TESSERA_REFUSES(cuCtxGetLimit)
TESSERA_REFUSES(cuDevicePrimaryCtxRelease)
TESSERA_REFUSES(cuDevicePrimaryCtxReset)
TESSERA_REFUSES(cuLaunchCooperativeKernel)
TESSERA_REFUSES(cuLibraryLoadFromFile)
TESSERA_REFUSES(cuLinkAddData)
TESSERA_REFUSES(cuLinkAddData_v2)
TESSERA_REFUSES(cuLinkAddFile_v2)
TESSERA_REFUSES(cuLinkComplete)
TESSERA_REFUSES(cuLinkCreate)
TESSERA_REFUSES(cuLinkCreate_v2)
TESSERA_REFUSES(cuLinkDestroy)
TESSERA_REFUSES(cuMemcpyDtoH_v2)
TESSERA_REFUSES(cuModuleGetGlobal_v2)
TESSERA_REFUSES(cuModuleLoadFatBinary)
TESSERA_REFUSES(cuOccupancyMaxActiveBlocksPerMultiprocessor)
TESSERA_REFUSES(cuOccupancyMaxPotentialClusterSize)
TESSERA_REFUSES(cuStreamGetCtx)
TESSERA_REFUSES(cuStreamSynchronize)
