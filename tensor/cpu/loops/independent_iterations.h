#pragma once  // internal

/// Placed before a loop whose iterations are independent: compilers then vectorize it without checking
/// whether its pointers overlap.
#if defined(__clang__)
#define TESSERA_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#else
#define TESSERA_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#endif
