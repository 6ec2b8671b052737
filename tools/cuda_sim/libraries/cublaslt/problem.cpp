// What fits together, and what cuBLASLt has for it ("cublasLtMatmul()": its tables of types and epilogues).
#include "tools/cuda_sim/libraries/cublaslt/descriptors.h"

namespace tessera::cuda_sim::cublaslt {

namespace {

bool has_room(const Layout& layout) {
  const uint64_t lines = layout.order == CUBLASLT_ORDER_ROW ? layout.columns : layout.rows;
  return layout.leading >= 0 && static_cast<uint64_t>(layout.leading) >= lines;
}

bool is_half(uint32_t type) {
  return type == CUDA_R_16F || type == CUDA_R_16BF;
}

bool types_exist(const Problem& problem) {
  const uint32_t in = problem.a.type, out = problem.d.type;
  if (problem.b.type != in || problem.c.type != out) return false;
  const int32_t compute = problem.description.compute_type, scale = problem.description.scale_type;
  switch (compute) {
    case CUBLAS_COMPUTE_64F:
      return scale == CUDA_R_64F && in == CUDA_R_64F && out == CUDA_R_64F;
    case CUBLAS_COMPUTE_16F:
      return scale == CUDA_R_16F && in == CUDA_R_16F && out == CUDA_R_16F;
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
      if (scale != CUDA_R_32F) return false;
      return (in == CUDA_R_32F && out == CUDA_R_32F) || (is_half(in) && (out == in || out == CUDA_R_32F));
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return scale == CUDA_R_32F && in == CUDA_R_32F && out == CUDA_R_32F;
    default:
      return false;
  }
}

bool epilogue_exists(uint32_t epilogue) {
  switch (epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DGELU:
    case CUBLASLT_EPILOGUE_DGELU_BGRAD:
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB:
      return true;
    default:
      return false;
  }
}

constexpr uint32_t auxiliary_bit = 128;
constexpr int64_t auxiliary_multiple = 8;

/// Defaults of the bias's and the auxiliary matrix's types, and their checks.
cublasStatus_t check_epilogue(Problem& problem) {
  MatmulDescription& description = problem.description;
  if (!epilogue_exists(description.epilogue)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (description.epilogue != CUBLASLT_EPILOGUE_DEFAULT && problem.a.type == CUDA_R_64F)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (description.epilogue != CUBLASLT_EPILOGUE_DEFAULT && problem.d.order != CUBLASLT_ORDER_COL)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto out = static_cast<int32_t>(problem.d.type);
  if (description.bias_type == -1) description.bias_type = out;
  if (description.auxiliary_type == -1) description.auxiliary_type = out;
  if (description.bias_type != out && description.bias_type != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (description.auxiliary_type != out) return CUBLAS_STATUS_NOT_SUPPORTED;
  if ((description.epilogue & auxiliary_bit) != 0 &&
      (description.auxiliary == nullptr || description.auxiliary_leading % auxiliary_multiple != 0 ||
       description.auxiliary_leading < static_cast<int64_t>(problem.m)))
    return CUBLAS_STATUS_INVALID_VALUE;
  constexpr uint32_t with_bias =
      CUBLASLT_EPILOGUE_BIAS | 16 | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB;
  if ((description.epilogue & with_bias) != 0 && description.bias == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

size_t element_bytes(uint32_t type) {
  return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

cublasStatus_t make_problem(cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a,
                            cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                            Problem& problem) {
  if (description == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  problem.description = value_of<MatmulDescription>(description);
  problem.a = value_of<Layout>(a);
  problem.b = value_of<Layout>(b);
  problem.c = value_of<Layout>(c);
  problem.d = value_of<Layout>(d);
  const auto is_transposed = [](int32_t operation) { return operation != CUBLAS_OP_N; };
  const bool ta = is_transposed(problem.description.transpose_a),
             tb = is_transposed(problem.description.transpose_b);
  problem.m = ta ? problem.a.columns : problem.a.rows;
  problem.k = ta ? problem.a.rows : problem.a.columns;
  problem.n = tb ? problem.b.rows : problem.b.columns;
  if ((tb ? problem.b.columns : problem.b.rows) != problem.k) return CUBLAS_STATUS_INVALID_VALUE;
  for (const Layout* out : {&problem.c, &problem.d})
    if (out->rows != problem.m || out->columns != problem.n) return CUBLAS_STATUS_INVALID_VALUE;
  for (const Layout* one : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    if (one->rows == 0 || one->columns == 0 || one->batches != problem.d.batches || one->batches < 1)
      return CUBLAS_STATUS_INVALID_VALUE;
    if (one->order != CUBLASLT_ORDER_COL && one->order != CUBLASLT_ORDER_ROW)
      return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!has_room(*one)) return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (problem.c.order != problem.d.order) return CUBLAS_STATUS_NOT_SUPPORTED;
  const int32_t mode = problem.description.pointer_mode;
  if (mode != CUBLASLT_POINTER_MODE_HOST && mode != CUBLASLT_POINTER_MODE_DEVICE)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (is_transposed(problem.description.transpose_c) || !types_exist(problem))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return check_epilogue(problem);
}

}  // namespace tessera::cuda_sim::cublaslt
