#pragma once  // internal

/// Marks a function that compiles for the host and, under nvcc, for the device too.
#if defined(__CUDACC__)
#define TESSERA_HD __host__ __device__
#else
#define TESSERA_HD
#endif

/// Marks a function of one element, for host and device. It becomes a part of each caller, so that callers
/// compiled for different instruction sets share no copy of it.
#if defined(__CUDACC__)
#define TESSERA_ELEMENT TESSERA_HD __forceinline__
#else
#define TESSERA_ELEMENT inline __attribute__((always_inline))
#endif
