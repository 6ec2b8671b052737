#pragma once  // internal

#include <cublasLt.h>

#include <source_location>
#include <utility>

#include "tensor/device.h"

/// cuBLASLt, loaded at its first use.
namespace tessera::cuda_runtime {

/// Throws DeviceError for a status that is not success, naming the call, its place and the status.
void check(cublasStatus_t status, const char* call,
           std::source_location place = std::source_location::current());

/// The handle of a device; it lives until the process ends. Throws DeviceError where there is no cuBLASLt.
cublasLtHandle_t cublaslt_handle(Device device);

/// What a product is: a descriptor, owned.
class ProductDescription {
 public:
  ProductDescription(cublasComputeType_t compute, cudaDataType_t scale);
  ~ProductDescription();
  ProductDescription(ProductDescription&& other) noexcept
      : description_(std::exchange(other.description_, nullptr)) {}
  ProductDescription(const ProductDescription&) = delete;
  ProductDescription& operator=(const ProductDescription&) = delete;

  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) const {
    set(attribute, &value, sizeof value);
  }
  cublasLtMatmulDesc_t get() const { return description_; }

 private:
  void set(cublasLtMatmulDescAttributes_t attribute, const void* value, size_t bytes) const;
  cublasLtMatmulDesc_t description_ = nullptr;
};

/// How matrices lie in memory: a layout in the order of columns, owned.
class MatrixDescription {
 public:
  MatrixDescription(cudaDataType_t type, int64_t rows, int64_t columns, int64_t leading, int32_t batch,
                    int64_t stride);
  ~MatrixDescription();
  MatrixDescription(MatrixDescription&& other) noexcept : layout_(std::exchange(other.layout_, nullptr)) {}
  MatrixDescription(const MatrixDescription&) = delete;
  MatrixDescription& operator=(const MatrixDescription&) = delete;
  cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  cublasLtMatrixLayout_t layout_ = nullptr;
};

}  // namespace tessera::cuda_runtime
