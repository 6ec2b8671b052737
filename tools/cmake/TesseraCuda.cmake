# Included with -DTESSERA_CUDA=ON: enables the language, by default for the architecture that the kernels are tuned for.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90)
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
set(TESSERA_WITH_CUDA ON)
