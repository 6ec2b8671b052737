#pragma once  // internal

#include <cuda_runtime_api.h>

/// Marks a function that stands in place of one of the CUDA runtime. It is weak: a program that links a
/// runtime of its own (cudart_static) keeps that one's.
#define TESSERA_STAND_IN __attribute__((weak, visibility("default")))
