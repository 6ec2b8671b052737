#include "tensor/cuda/matmul/cublaslt.h"

#include <array>
#include <mutex>
#include <string_view>

#include "tensor/cuda/runtime/check.h"
#include "tensor/cuda/runtime/device_guard.h"
#include "tensor/cuda/runtime/library.h"
#include "tensor/cuda/runtime/symbols.h"
#include "tensor/error.h"

/// Defines cuBLASLt's function `name`, which passes its call on to the library that is loaded.
#define TESSERA_FORWARD(name, parameters, arguments)                                           \
  TESSERA_STAND_IN cublasStatus_t CUBLASWINAPI name parameters {                               \
    using Function = cublasStatus_t(CUBLASWINAPI*) parameters;                                 \
    static const auto function = reinterpret_cast<Function>(                                   \
        tessera::cuda_runtime::find_symbol("libcublasLt.so." TESSERA_CUDA_MAJOR_TEXT, #name)); \
    return function != nullptr ? function arguments : CUBLAS_STATUS_NOT_INITIALIZED;           \
  }

extern "C" {

TESSERA_FORWARD(cublasLtCreate, (cublasLtHandle_t * handle), (handle))
TESSERA_FORWARD(cublasLtMatmulDescCreate,
                (cublasLtMatmulDesc_t * description, cublasComputeType_t compute, cudaDataType_t scale),
                (description, compute, scale))
TESSERA_FORWARD(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t description), (description))
TESSERA_FORWARD(cublasLtMatmulDescSetAttribute,
                (cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute,
                 const void* value, size_t bytes),
                (description, attribute, value, bytes))
TESSERA_FORWARD(cublasLtMatrixLayoutCreate,
                (cublasLtMatrixLayout_t * layout, cudaDataType type, uint64_t rows, uint64_t columns,
                 int64_t leading),
                (layout, type, rows, columns, leading))
TESSERA_FORWARD(cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout), (layout))
TESSERA_FORWARD(cublasLtMatrixLayoutSetAttribute,
                (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                 size_t bytes),
                (layout, attribute, value, bytes))
TESSERA_FORWARD(cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * preference), (preference))
TESSERA_FORWARD(cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference), (preference))
TESSERA_FORWARD(cublasLtMatmulPreferenceSetAttribute,
                (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
                 const void* value, size_t bytes),
                (preference, attribute, value, bytes))
TESSERA_FORWARD(cublasLtMatmulAlgoGetHeuristic,
                (cublasLtHandle_t handle, cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a,
                 cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                 cublasLtMatmulPreference_t preference, int wanted, cublasLtMatmulHeuristicResult_t* results,
                 int* found),
                (handle, description, a, b, c, d, preference, wanted, results, found))
TESSERA_FORWARD(cublasLtMatmul,
                (cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void* alpha, const void* a,
                 cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                 const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                 cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                 size_t workspace_bytes, cudaStream_t stream),
                (handle, description, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout,
                 algorithm, workspace, workspace_bytes, stream))

}  // extern "C"

namespace tessera::cuda_runtime {
namespace {

const char* name_of(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}

}  // namespace

void check(cublasStatus_t status, const char* call, std::source_location place) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  const std::string_view file = place.file_name();
  const size_t at = file.rfind("/tensor/");
  throw DeviceError(text(call, " (", at == std::string_view::npos ? file : file.substr(at + 1), ":",
                         place.line(), "): ", name_of(status),
                         status == CUBLAS_STATUS_NOT_INITIALIZED ? "; libcublasLt.so." TESSERA_CUDA_MAJOR_TEXT
                                                                   " was not found beside the CUDA runtime"
                                                                 : ""));
}

cublasLtHandle_t cublaslt_handle(Device device) {
  constexpr int max_devices = 128;
  static std::array<cublasLtHandle_t, max_devices> handles{};
  static std::array<std::once_flag, max_devices> made;
  std::call_once(made[device.index], [&] {
    const DeviceGuard guard(device);
    check(cublasLtCreate(&handles[device.index]), "cublasLtCreate");
  });
  return handles[device.index];
}

ProductDescription::ProductDescription(cublasComputeType_t compute, cudaDataType_t scale) {
  check(cublasLtMatmulDescCreate(&description_, compute, scale), "cublasLtMatmulDescCreate");
}
ProductDescription::~ProductDescription() {
  if (description_ != nullptr) cublasLtMatmulDescDestroy(description_);
}
void ProductDescription::set(cublasLtMatmulDescAttributes_t attribute, const void* value,
                             size_t bytes) const {
  check(cublasLtMatmulDescSetAttribute(description_, attribute, value, bytes),
        "cublasLtMatmulDescSetAttribute");
}

MatrixDescription::MatrixDescription(cudaDataType_t type, int64_t rows, int64_t columns, int64_t leading,
                                     int32_t batch, int64_t stride) {
  check(cublasLtMatrixLayoutCreate(&layout_, type, static_cast<uint64_t>(rows),
                                   static_cast<uint64_t>(columns), leading),
        "cublasLtMatrixLayoutCreate");
  if (batch == 1) return;
  check(cublasLtMatrixLayoutSetAttribute(layout_, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch),
        "cublasLtMatrixLayoutSetAttribute");
  check(cublasLtMatrixLayoutSetAttribute(layout_, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                         sizeof stride),
        "cublasLtMatrixLayoutSetAttribute");
}
MatrixDescription::~MatrixDescription() {
  if (layout_ != nullptr) cublasLtMatrixLayoutDestroy(layout_);
}

}  // namespace tessera::cuda_runtime
