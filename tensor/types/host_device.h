#pragma once  // internal

/// Marks a function that compiles for the host and, under nvcc, for the device too.
#if defined(__CUDACC__)
#define TESSERA_HD __host__ __device__
#else
#define TESSERA_HD
#endif
