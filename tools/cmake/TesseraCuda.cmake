# Included with -DTESSERA_CUDA=ON: enables the language, by default for the architecture that the kernels are tuned for.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90)
endif()
# The CUDA runtime is loaded when a device is first used (tensor/cuda/runtime), so that programs start without it.
set(CMAKE_CUDA_RUNTIME_LIBRARY None)
enable_language(CUDA)
# nvcc's -O is that of the host's code, which launches kernels and no more.
string(REPLACE "-O3" "-O1" CMAKE_CUDA_FLAGS_RELEASE "${CMAKE_CUDA_FLAGS_RELEASE}")
find_package(CUDAToolkit REQUIRED)
set(TESSERA_WITH_CUDA ON)
