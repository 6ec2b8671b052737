// The product: D = epilogue(alpha op(A) op(B) + beta C), summed in double and rounded once.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tools/cuda_sim/libraries/cublaslt/descriptors.h"
#include "tools/cuda_sim/libraries/cublaslt/elements.h"
#include "tools/cuda_sim/runtime/tessera_cuda_sim.h"

namespace tessera::cuda_sim::cublaslt {

namespace {

struct Product {
  Problem problem;
  const void *a, *b, *c;
  void* d;
  double alpha = 1, beta = 0;  ///< of the host
  const void *device_alpha = nullptr, *device_beta = nullptr;
};

bool has_epilogue(const Problem& problem, uint32_t bits) {
  return (problem.description.epilogue & bits) == bits;
}

uint64_t offset(const Layout& layout, uint64_t row, uint64_t column) {
  const auto leading = static_cast<uint64_t>(layout.leading);
  return layout.order == CUBLASLT_ORDER_ROW ? row * leading + column : column * leading + row;
}

uint64_t batch_begin(const Layout& layout, int batch) {
  return static_cast<uint64_t>(batch) * static_cast<uint64_t>(layout.batch_stride);
}

/// op(X) of one batch, line by line: `lines` lines of `length` values.
std::vector<double> pack(const void* x, const Layout& layout, int batch, uint64_t lines, uint64_t length,
                         bool line_is_row, bool to_tf32) {
  std::vector<double> packed(lines * length);
  const uint64_t begin = batch_begin(layout, batch);
  for (uint64_t line = 0; line < lines; ++line)
    for (uint64_t i = 0; i < length; ++i) {
      const double value =
          load(x, layout.type, begin + (line_is_row ? offset(layout, line, i) : offset(layout, i, line)));
      packed[line * length + i] = to_tf32 ? round_to_tf32(value) : value;
    }
  return packed;
}

/// GELU by tanh, as cuBLASLt's epilogue has it, and its derivative.
double gelu(double x) {
  constexpr double root = 0.7978845608028654;  // sqrt(2 / pi)
  return 0.5 * x * (1 + std::tanh(root * (x + 0.044715 * x * x * x)));
}
double gelu_derivative(double x) {
  constexpr double root = 0.7978845608028654;
  const double t = std::tanh(root * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
}

struct Batch {
  const Product& product;
  int number;
  double alpha, beta;
  std::vector<double> bias_gradient;

  void write_column(uint64_t j, const std::vector<double>& sums);
  void write_bias(const std::vector<double>& values);
};

void Batch::write_column(uint64_t j, const std::vector<double>& sums) {
  const Problem& problem = product.problem;
  const MatmulDescription& description = problem.description;
  const auto bias_begin = static_cast<uint64_t>(number * description.bias_stride);
  const auto auxiliary_begin = static_cast<uint64_t>(number * description.auxiliary_stride);
  const auto bias_type = static_cast<uint32_t>(description.bias_type);
  const auto auxiliary_type = static_cast<uint32_t>(description.auxiliary_type);
  for (uint64_t i = 0; i < problem.m; ++i) {
    double value = alpha * sums[i];
    if (beta != 0)
      value +=
          beta * load(product.c, problem.c.type, batch_begin(problem.c, number) + offset(problem.c, i, j));
    if (has_epilogue(problem, CUBLASLT_EPILOGUE_BIAS))
      value += load(description.bias, bias_type, bias_begin + i);
    const uint64_t auxiliary_at =
        auxiliary_begin + j * static_cast<uint64_t>(description.auxiliary_leading) + i;
    if (has_epilogue(problem, CUBLASLT_EPILOGUE_DGELU)) {
      value *= gelu_derivative(load(description.auxiliary, auxiliary_type, auxiliary_at));
      if (!bias_gradient.empty()) bias_gradient[i] += value;
    } else if (has_epilogue(problem, CUBLASLT_EPILOGUE_GELU)) {
      if (has_epilogue(problem, CUBLASLT_EPILOGUE_GELU_AUX))
        store(description.auxiliary, auxiliary_type, auxiliary_at, value);
      value = gelu(value);
    } else if (has_epilogue(problem, CUBLASLT_EPILOGUE_RELU)) {
      value = value > 0 || std::isnan(value) ? value : 0;
    }
    store(product.d, problem.d.type, batch_begin(problem.d, number) + offset(problem.d, i, j), value);
  }
}

void Batch::write_bias(const std::vector<double>& values) {
  const MatmulDescription& description = product.problem.description;
  const auto begin = static_cast<uint64_t>(number * description.bias_stride);
  for (uint64_t i = 0; i < values.size(); ++i)
    store(description.bias, static_cast<uint32_t>(description.bias_type), begin + i, values[i]);
}

void run_batch(const Product& product, int number, double alpha, double beta) {
  const Problem& problem = product.problem;
  const uint64_t m = problem.m, n = problem.n, k = problem.k;
  const bool ta = problem.description.transpose_a != CUBLAS_OP_N;
  const bool tb = problem.description.transpose_b != CUBLAS_OP_N;
  const bool tf32 = problem.description.compute_type == CUBLAS_COMPUTE_32F_FAST_TF32;
  // a: k lines of m values; b: n lines of k values.
  const std::vector<double> a = pack(product.a, problem.a, number, k, m, ta, tf32);
  const std::vector<double> b = pack(product.b, problem.b, number, n, k, tb, tf32);
  Batch batch{product, number, alpha, beta, {}};
  if (has_epilogue(problem, CUBLASLT_EPILOGUE_DGELU_BGRAD)) batch.bias_gradient.resize(m);
  std::vector<double> sums(m);
  for (uint64_t j = 0; j < n; ++j) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (uint64_t x = 0; x < k; ++x) {
      const double factor = b[j * k + x];
      const double* line = a.data() + x * m;
      for (uint64_t i = 0; i < m; ++i) sums[i] += line[i] * factor;
    }
    batch.write_column(j, sums);
  }
  if (!batch.bias_gradient.empty()) batch.write_bias(batch.bias_gradient);
  if (has_epilogue(problem, CUBLASLT_EPILOGUE_BGRADA)) {
    std::vector<double> gradient(m);
    for (uint64_t x = 0; x < k; ++x)
      for (uint64_t i = 0; i < m; ++i) gradient[i] += a[x * m + i];
    batch.write_bias(gradient);
  }
  if (has_epilogue(problem, CUBLASLT_EPILOGUE_BGRADB)) {
    std::vector<double> gradient(n);
    for (uint64_t j = 0; j < n; ++j)
      for (uint64_t x = 0; x < k; ++x) gradient[j] += b[j * k + x];
    batch.write_bias(gradient);
  }
}

void run(void* data) {
  const Product& product = *static_cast<const Product*>(data);
  const auto scale = static_cast<uint32_t>(product.problem.description.scale_type);
  const double alpha = product.device_alpha != nullptr ? load(product.device_alpha, scale, 0) : product.alpha;
  const double beta = product.device_beta != nullptr ? load(product.device_beta, scale, 0) : product.beta;
  for (int batch = 0; batch < product.problem.d.batches; ++batch) run_batch(product, batch, alpha, beta);
}

/// The bytes of a matrix, line by line where lines have gaps.
void add_ranges(std::vector<tessera_cuda_sim_range>& ranges, const void* x, const Layout& layout,
                bool writes) {
  const size_t size = element_bytes(layout.type);
  const bool by_row = layout.order == CUBLASLT_ORDER_ROW;
  const uint64_t length = by_row ? layout.columns : layout.rows,
                 lines = by_row ? layout.rows : layout.columns;
  for (int batch = 0; batch < layout.batches; ++batch) {
    const auto* begin = static_cast<const char*>(x) + batch_begin(layout, batch) * size;
    if (static_cast<uint64_t>(layout.leading) == length || lines == 1) {
      ranges.push_back({begin, length * lines * size, writes ? 1 : 0});
    } else {
      for (uint64_t line = 0; line < lines; ++line)
        ranges.push_back(
            {begin + line * static_cast<uint64_t>(layout.leading) * size, length * size, writes ? 1 : 0});
    }
    if (layout.batch_stride == 0) break;
  }
}

void add_epilogue_ranges(std::vector<tessera_cuda_sim_range>& ranges, const Problem& problem) {
  const MatmulDescription& description = problem.description;
  const size_t bias_bytes = element_bytes(static_cast<uint32_t>(description.bias_type));
  if (has_epilogue(problem, CUBLASLT_EPILOGUE_BIAS))
    ranges.push_back({description.bias, problem.m * bias_bytes, 0});
  if (has_epilogue(problem, CUBLASLT_EPILOGUE_DGELU_BGRAD) || has_epilogue(problem, CUBLASLT_EPILOGUE_BGRADA))
    ranges.push_back({description.bias, problem.m * bias_bytes, 1});
  if (has_epilogue(problem, CUBLASLT_EPILOGUE_BGRADB))
    ranges.push_back({description.bias, problem.n * bias_bytes, 1});
  const bool reads = has_epilogue(problem, CUBLASLT_EPILOGUE_DGELU);
  if (!reads && !has_epilogue(problem, CUBLASLT_EPILOGUE_GELU_AUX)) return;
  Layout auxiliary = problem.d;
  auxiliary.type = static_cast<uint32_t>(description.auxiliary_type);
  auxiliary.leading = description.auxiliary_leading;
  auxiliary.batch_stride = description.auxiliary_stride;
  add_ranges(ranges, description.auxiliary, auxiliary, !reads);
}

}  // namespace

}  // namespace tessera::cuda_sim::cublaslt

using namespace tessera::cuda_sim::cublaslt;

extern "C" {

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (preference == nullptr || wanted < 1 || results == nullptr || found == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  *found = 0;
  Problem problem;
  if (const cublasStatus_t status = make_problem(description, a, b, c, d, problem);
      status != CUBLAS_STATUS_SUCCESS)
    return status;
  *results = {};
  results->state = CUBLAS_STATUS_SUCCESS;
  results->algo.data[0] = 1;
  results->wavesCount = 1;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t*, void* workspace, size_t workspace_bytes,
                              cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (alpha == nullptr || beta == nullptr || a == nullptr || b == nullptr || d == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  auto product = std::make_unique<Product>();
  Problem& problem = product->problem;
  if (const cublasStatus_t status =
          make_problem(description, a_layout, b_layout, c_layout, d_layout, problem);
      status != CUBLAS_STATUS_SUCCESS)
    return status;
  product->a = a;
  product->b = b;
  product->c = c;
  product->d = d;
  const auto scale = static_cast<uint32_t>(problem.description.scale_type);
  std::vector<tessera_cuda_sim_range> ranges;
  if (problem.description.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE) {
    product->device_alpha = alpha;
    product->device_beta = beta;
    ranges.push_back({alpha, element_bytes(scale), 0});
    ranges.push_back({beta, element_bytes(scale), 0});
  } else {
    product->alpha = load(alpha, scale, 0);
    product->beta = load(beta, scale, 0);
  }
  const bool reads_c = product->device_beta != nullptr || product->beta != 0;
  if (reads_c && c == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  // In place only with the same layout.
  if (c == d && (problem.c.leading != problem.d.leading || problem.c.batch_stride != problem.d.batch_stride))
    return CUBLAS_STATUS_INVALID_VALUE;
  for (const void* pointer : {a, b, static_cast<const void*>(d)})
    if (reinterpret_cast<uintptr_t>(pointer) % element_bytes(problem.a.type) != 0)
      return CUBLAS_STATUS_INVALID_VALUE;
  if (workspace == nullptr && workspace_bytes != 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (problem.d.batches > 1 && problem.d.batch_stride == 0) return CUBLAS_STATUS_INVALID_VALUE;
  add_ranges(ranges, a, problem.a, false);
  add_ranges(ranges, b, problem.b, false);
  if (reads_c) add_ranges(ranges, c, problem.c, false);
  add_epilogue_ranges(ranges, problem);
  add_ranges(ranges, d, problem.d, true);
  const std::string name = "cublasLtMatmul " + std::to_string(problem.m) + " x " + std::to_string(problem.n) +
                           " x " + std::to_string(problem.k);
  const int error = tessera_cuda_sim_operation(
      name.c_str(), stream, ranges.data(), ranges.size(), run,
      [](void* data) { delete static_cast<Product*>(data); }, product.release());
  return error == cudaSuccess             ? CUBLAS_STATUS_SUCCESS
         : error == cudaErrorInvalidValue ? CUBLAS_STATUS_INVALID_VALUE
                                          : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
