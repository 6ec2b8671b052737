// Handles, descriptors and their attributes.
#include "tools/cuda_sim/libraries/cublaslt/descriptors.h"

#include <cstddef>
#include <new>

using namespace tessera::cuda_sim::cublaslt;

namespace {

struct Attribute {
  int number;
  size_t offset, bytes;
};
#define TESSERA_ATTRIBUTE(number, type, member)          \
  Attribute {                                            \
    number, offsetof(type, member), sizeof(type::member) \
  }

constexpr Attribute layout_attributes[] = {
    TESSERA_ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_TYPE, Layout, type),
    TESSERA_ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_ORDER, Layout, order),
    TESSERA_ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_ROWS, Layout, rows),
    TESSERA_ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_COLS, Layout, columns),
    TESSERA_ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_LD, Layout, leading),
    TESSERA_ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, Layout, batches),
    TESSERA_ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, Layout, batch_stride),
};

constexpr Attribute matmul_attributes[] = {
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, MatmulDescription, compute_type),
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_DESC_SCALE_TYPE, MatmulDescription, scale_type),
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_DESC_POINTER_MODE, MatmulDescription, pointer_mode),
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_DESC_TRANSA, MatmulDescription, transpose_a),
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_DESC_TRANSB, MatmulDescription, transpose_b),
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_DESC_TRANSC, MatmulDescription, transpose_c),
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_DESC_EPILOGUE, MatmulDescription, epilogue),
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_DESC_BIAS_POINTER, MatmulDescription, bias),
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, MatmulDescription, bias_stride),
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, MatmulDescription, auxiliary),
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, MatmulDescription, auxiliary_leading),
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, MatmulDescription, auxiliary_stride),
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, MatmulDescription, auxiliary_type),
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, MatmulDescription, bias_type),
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, MatmulDescription, multiprocessors),
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_DESC_FAST_ACCUM, MatmulDescription, fast_accumulation),
};

constexpr Attribute preference_attributes[] = {
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_PREF_SEARCH_MODE, Preference, search_mode),
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, Preference, workspace_bytes),
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, Preference, reduction_mask),
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, Preference, alignment[0]),
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, Preference, alignment[1]),
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, Preference, alignment[2]),
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, Preference, alignment[3]),
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, Preference, max_waves),
    TESSERA_ATTRIBUTE(CUBLASLT_MATMUL_PREF_IMPL_MASK, Preference, implementation_mask),
};

template <size_t N>
const Attribute* find(const Attribute (&table)[N], int number) {
  for (const Attribute& one : table)
    if (one.number == number) return &one;
  return nullptr;
}

template <class Value, size_t N, class Handle>
cublasStatus_t set(const Attribute (&table)[N], Handle handle, int number, const void* from, size_t bytes) {
  const Attribute* attribute = find(table, number);
  if (handle == nullptr || from == nullptr || attribute == nullptr || bytes < attribute->bytes)
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(reinterpret_cast<char*>(&value_of<Value>(handle)) + attribute->offset, from, attribute->bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Value, size_t N, class Handle>
cublasStatus_t get(const Attribute (&table)[N], Handle handle, int number, void* to, size_t bytes,
                   size_t* written) {
  const Attribute* attribute = find(table, number);
  if (handle == nullptr || attribute == nullptr || (bytes == 0 && written == nullptr))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (written != nullptr) *written = attribute->bytes;
  if (bytes == 0) return CUBLAS_STATUS_SUCCESS;
  if (to == nullptr || bytes < attribute->bytes) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to, reinterpret_cast<const char*>(&value_of<Value>(handle)) + attribute->offset,
              attribute->bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Value, class Handle>
cublasStatus_t begin(Handle handle, size_t bytes, const Value& value) {
  if (handle == nullptr || bytes < sizeof(*handle)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(handle->data, 0, sizeof handle->data);
  new (handle->data) Value(value);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Opaque>
cublasStatus_t create(Opaque** handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = new Opaque;
  return CUBLAS_STATUS_SUCCESS;
}

template <class Opaque>
cublasStatus_t destroy(Opaque* handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

Layout layout(cudaDataType type, uint64_t rows, uint64_t columns, int64_t leading) {
  return {.type = static_cast<uint32_t>(type), .rows = rows, .columns = columns, .leading = leading};
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = reinterpret_cast<cublasLtHandle_t>(new int(0));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion() {
  return CUBLAS_VERSION;
}

size_t cublasLtGetCudartVersion() {
  return CUDART_VERSION;
}

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_LICENSE_ERROR:
      return "CUBLAS_STATUS_LICENSE_ERROR";
  }
  return "CUBLAS_STATUS_UNKNOWN";
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return cublasLtGetStatusName(status);
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t handle, size_t bytes,
                                                 cudaDataType type, uint64_t rows, uint64_t columns,
                                                 int64_t leading) {
  return begin(handle, bytes, layout(type, rows, columns, leading));
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* handle, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  if (const cublasStatus_t status = create(handle); status != CUBLAS_STATUS_SUCCESS) return status;
  return begin(*handle, sizeof **handle, layout(type, rows, columns, leading));
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) {
  return destroy(handle);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* from,
                                                size_t bytes) {
  return set<Layout>(layout_attributes, handle, attribute, from, bytes);
}

cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t attribute, void* to,
                                                size_t bytes, size_t* written) {
  return get<Layout>(layout_attributes, handle, attribute, to, bytes, written);
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t handle, size_t bytes,
                                               cublasComputeType_t compute, cudaDataType_t scale) {
  return begin(handle, bytes, MatmulDescription{.compute_type = compute, .scale_type = scale});
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* handle, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (const cublasStatus_t status = create(handle); status != CUBLAS_STATUS_SUCCESS) return status;
  return cublasLtMatmulDescInit_internal(*handle, sizeof **handle, compute, scale);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) {
  return destroy(handle);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t attribute, const void* from,
                                              size_t bytes) {
  return set<MatmulDescription>(matmul_attributes, handle, attribute, from, bytes);
}

cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t attribute, void* to,
                                              size_t bytes, size_t* written) {
  return get<MatmulDescription>(matmul_attributes, handle, attribute, to, bytes, written);
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t handle, size_t bytes) {
  return begin(handle, bytes, Preference{});
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* handle) {
  if (const cublasStatus_t status = create(handle); status != CUBLAS_STATUS_SUCCESS) return status;
  return cublasLtMatmulPreferenceInit_internal(*handle, sizeof **handle);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) {
  return destroy(handle);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* from, size_t bytes) {
  return set<Preference>(preference_attributes, handle, attribute, from, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, void* to,
                                                    size_t bytes, size_t* written) {
  return get<Preference>(preference_attributes, handle, attribute, to, bytes, written);
}

}  // extern "C"
