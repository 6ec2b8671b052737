// What cuBLASLt's opaque descriptors hold here.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <cstring>

namespace tessera::cuda_sim::cublaslt {

struct Layout {
  uint32_t type = CUDA_R_32F;
  int32_t order = CUBLASLT_ORDER_COL;
  uint64_t rows = 0, columns = 0;
  int64_t leading = 0;
  int32_t batches = 1;
  int64_t batch_stride = 0;
};

struct MatmulDescription {
  int32_t compute_type = CUBLAS_COMPUTE_32F, scale_type = CUDA_R_32F;
  int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N, transpose_c = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  int64_t bias_stride = 0;
  void* auxiliary = nullptr;
  int64_t auxiliary_leading = 0, auxiliary_stride = 0;
  int32_t bias_type = -1, auxiliary_type = -1;
  int32_t multiprocessors = 0;
  int8_t fast_accumulation = 0;
};

struct Preference {
  uint32_t search_mode = 0, reduction_mask = ~0u;
  uint64_t workspace_bytes = 0;
  uint32_t alignment[4] = {256, 256, 256, 256};
  float max_waves = 0;
  uint64_t implementation_mask = ~uint64_t{0};
};

static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t));
static_assert(sizeof(MatmulDescription) <= sizeof(cublasLtMatmulDescOpaque_t));
static_assert(sizeof(Preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t));

template <class Value, class Opaque>
Value& value_of(Opaque* handle) {
  return *reinterpret_cast<Value*>(handle->data);
}

/// Checked and with defaults filled in: what a product computes.
struct Problem {
  MatmulDescription description;
  Layout a, b, c, d;
  uint64_t m = 0, n = 0, k = 0;
};
/// CUBLAS_STATUS_INVALID_VALUE for what does not fit together, CUBLAS_STATUS_NOT_SUPPORTED for types and
/// epilogues that the real library does not have for them.
cublasStatus_t make_problem(cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a,
                            cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                            Problem& problem);
size_t element_bytes(uint32_t type);

}  // namespace tessera::cuda_sim::cublaslt
