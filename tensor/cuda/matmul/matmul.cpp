// cuBLASLt thinks in columns: a row-major (m, n) matrix is its column-major (n, m) one. So out^T = b^T a^T is
// computed, with b first; the bias, one value for each of out's columns, is one for each row of out^T, as the
// epilogue has it. Batch dimensions are joined to one where they are evenly spaced in all operands; the
// others are loops.
#include "tensor/cuda/matmul/matmul.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <tuple>

#include "tensor/cuda/elementwise/elementwise.h"
#include "tensor/cuda/matmul/cublaslt.h"
#include "tensor/cuda/runtime/device_guard.h"
#include "tensor/cuda/runtime/stream.h"
#include "tensor/matrix_layout.h"
#include "tensor/strided_loop.h"

namespace tessera::kernels::cuda {
namespace {

using cuda_runtime::check;
using cuda_runtime::MatrixDescription;
using cuda_runtime::ProductDescription;

/// For cuBLASLt's own use; NVIDIA advises 32 MiB for Hopper, and 4 before.
constexpr size_t workspace_limit = size_t{32} << 20;

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return CUDA_R_64F;
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      throw NotBuiltError(text("matmul: this build has no kernel for ", dtype, " on cuda"));
  }
}

/// All that a plan depends on. Alignments of the addresses, since kernels need some.
struct Problem {
  int64_t m, n, k;
  MatrixLayout a, b;
  int64_t leading;
  int32_t batch;
  int64_t a_stride, b_stride, out_stride;
  DType in, out;
  bool has_bias;
  uint32_t a_alignment, b_alignment, out_alignment;

  auto key() const {
    return std::make_tuple(m, n, k, a.transposed, a.leading, b.transposed, b.leading, leading, batch,
                           a_stride, b_stride, out_stride, in, out, has_bias, a_alignment, b_alignment,
                           out_alignment);
  }
  bool operator<(const Problem& other) const { return key() < other.key(); }
};

/// Descriptors and the algorithm for a problem; asking for these takes longer than a small product.
struct Plan {
  ProductDescription product;
  MatrixDescription b, a, out;
  cublasLtMatmulHeuristicResult_t chosen{};
};

/// The matrix of `rows` by `columns` elements as cuBLASLt sees it: its columns are our rows.
MatrixDescription described(DType dtype, int64_t rows, int64_t columns, const MatrixLayout& layout,
                            int32_t batch, int64_t stride) {
  const int64_t tall = layout.transposed ? rows : columns, wide = layout.transposed ? columns : rows;
  return MatrixDescription(type_of(dtype), tall, wide, std::max(layout.leading, tall), batch, stride);
}

/// `bias`: the address that the first call has; cuBLASLt refuses an epilogue without one.
std::unique_ptr<Plan> make_plan(const Problem& p, const void* bias, Device device) {
  const bool is_wide = p.out == f64;
  auto plan =
      std::make_unique<Plan>(Plan{ProductDescription(is_wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                                     is_wide ? CUDA_R_64F : CUDA_R_32F),
                                  described(p.in, p.k, p.n, p.b, p.batch, p.b_stride),
                                  described(p.in, p.m, p.k, p.a, p.batch, p.a_stride),
                                  described(p.out, p.m, p.n, {false, p.leading}, p.batch, p.out_stride)});
  plan->product.set(CUBLASLT_MATMUL_DESC_TRANSA, p.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  plan->product.set(CUBLASLT_MATMUL_DESC_TRANSB, p.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (p.has_bias) {
    plan->product.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    plan->product.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(p.in));
    plan->product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                        decltype(&cublasLtMatmulPreferenceDestroy)>
      preference(made, &cublasLtMatmulPreferenceDestroy);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_limit);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p.b_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p.a_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p.out_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p.out_alignment);
  int found = 0;
  check(cublasLtMatmulAlgoGetHeuristic(cuda_runtime::cublaslt_handle(device), plan->product.get(),
                                       plan->b.get(), plan->a.get(), plan->out.get(), plan->out.get(), made,
                                       1, &plan->chosen, &found),
        "cublasLtMatmulAlgoGetHeuristic");
  require<DeviceError>(found > 0, "matmul: cuBLASLt has no algorithm for (", p.m, ", ", p.k, ") by (", p.k,
                       ", ", p.n, ") of ", p.in, " on ", device);
  return plan;
}

/// This thread's plans: descriptors are changed by each call (the bias), and the map needs no lock.
Plan& plan_for(const Problem& problem, const void* bias, Device device) {
  thread_local std::map<std::pair<int, Problem>, std::unique_ptr<Plan>> plans;
  std::unique_ptr<Plan>& plan = plans[{device.index, problem}];
  if (!plan)
    plan = make_plan(problem, bias, device);
  else if (bias != nullptr)
    plan->product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  return *plan;
}

/// The largest power of two, up to 256, that divides an address.
uint32_t alignment_of(const void* address) {
  const auto low = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(address) | 256);
  return low & -low;
}

void* shifted(const Tensor& tensor, int64_t elements) {
  return static_cast<char*>(tensor.raw_data()) + elements * size_of(tensor.dtype());
}

}  // namespace

void matmul(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out, bool accumulate) {
  if (out.numel() == 0) return;
  const int ndim = out.ndim();
  const int64_t m = out.size(-2), n = out.size(-1), k = a.size(-1);
  // Strides of the batch dimensions alone.
  Shape batches = out.shape();
  batches[ndim - 2] = batches[ndim - 1] = 1;
  const StridedLoop<3> loop(batches, {&a.strides(), &b.strides(), &out.strides()});
  const int64_t batch = loop.inner(), last = loop.ndim - 1;
  const Device device = out.device();
  const cuda_runtime::DeviceGuard guard(device);
  const bool fused = bias.defined() && out.dtype() != f64;  // there is no epilogue in f64
  for (int64_t row = 0; row < loop.rows(); ++row) {
    int64_t offsets[3];
    loop.row_offsets(row, offsets);
    const void *left = shifted(a, offsets[0]), *right = shifted(b, offsets[1]);
    void* result = shifted(out, offsets[2]);
    const Problem problem = {m,
                             n,
                             k,
                             *matrix_layout(a),
                             *matrix_layout(b),
                             m == 1 ? n : out.strides()[ndim - 2],
                             static_cast<int32_t>(batch),
                             loop.strides[0][last],
                             loop.strides[1][last],
                             loop.strides[2][last],
                             a.dtype(),
                             out.dtype(),
                             fused,
                             alignment_of(left),
                             alignment_of(right),
                             alignment_of(result)};
    Plan& plan = plan_for(problem, fused ? bias.raw_data() : nullptr, device);
    const double wide[] = {1.0, accumulate ? 1.0 : 0.0};
    const float narrow[] = {1.0f, accumulate ? 1.0f : 0.0f};
    const void *one = out.dtype() == f64 ? static_cast<const void*>(wide) : narrow,
               *beta = out.dtype() == f64 ? static_cast<const void*>(wide + 1) : narrow + 1;
    const size_t bytes = plan.chosen.workspaceSize;
    const Tensor workspace = Tensor::empty({static_cast<int64_t>(bytes)}, u8, device);
    check(
        cublasLtMatmul(cuda_runtime::cublaslt_handle(device), plan.product.get(), one, right, plan.b.get(),
                       left, plan.a.get(), beta, result, plan.out.get(), result, plan.out.get(),
                       &plan.chosen.algo, workspace.raw_data(), bytes, cuda_runtime::current_stream(device)),
        "cublasLtMatmul");
  }
  if (bias.defined() && !fused) binary(BinaryOp::add, out.dtype(), out, bias.expand(out.shape()), out);
}

}  // namespace tessera::kernels::cuda
