#include "tensor/ops/matmul.h"

#include <atomic>
#include <optional>

#include "tensor/batched/rules.h"
#include "tensor/cpu/gemm/onednn/gemm_onednn.h"
#include "tensor/cpu/gemm/product_choice.h"
#include "tensor/cpu/gemm/product_squares.h"
#include "tensor/cpu/matmul.h"
#include "tensor/cuda/matmul/matmul.h"
#include "tensor/matrix_layout.h"
#include "tensor/ops/kernel.h"
#include "tensor/ops/wanted_squares.h"
#include "tensor/overlap.h"
#include "tensor/profile/cost.h"

namespace tessera {

void set_matmul_backend(MatmulBackend backend) {
  require<NotBuiltError>(backend != MatmulBackend::onednn || kernels::cpu::onednn_built(),
                         "set_matmul_backend: this build has no oneDNN");
  kernels::cpu::chosen_backend.store(backend, std::memory_order_relaxed);
}

MatmulBackend matmul_backend() {
  return kernels::cpu::chosen_backend.load(std::memory_order_relaxed);
}

std::string matmul_kernels() {
  return kernels::cpu::product_choices();
}

namespace ops {
namespace {

/// Whether all dimensions except the last are evenly spaced, so that they can be seen as one.
bool rows_are_even(const Tensor& x) {
  for (int i = 0; i + 2 < x.ndim(); ++i)
    if (x.strides()[i] != x.strides()[i + 1] * x.shape()[i + 1]) return false;
  return true;
}

/// The products of all samples: one over all rows where they share the second operand, a matrix.
void matmul_of_samples(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out,
                       bool accumulate) {
  if (bias.defined() && !batched::is_shared(bias))
    return batched::one_by_one<&kernels::cpu::matmul>(a, b, bias, out, accumulate);
  if (batched::is_shared(out)) throw_no_batching_rule("matmul_out");
  const int32_t samples = out.device().samples;
  const Tensor all_a = batched::all_samples(a, samples), all_out = batched::all_samples(out, samples);
  const Tensor one_bias = bias.defined() ? batched::one_sample(bias, 0) : bias;
  const bool one_matrix = batched::is_shared(b) && b.ndim() == 2 && !matrix_layout(a)->transposed;
  if (one_matrix && rows_are_even(all_a) && rows_are_even(all_out))
    return kernels::cpu::matmul(all_a.flatten(0, -2), batched::one_sample(b, 0), one_bias,
                                all_out.flatten(0, -2), accumulate);
  kernels::cpu::matmul(all_a, batched::all_samples(b, samples), one_bias, all_out, accumulate);
}

constexpr Kernel<void(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out,
                      bool accumulate)>
    matmul_kernel{"matmul", &kernels::cpu::matmul, TESSERA_CUDA_KERNEL(kernels::cuda::matmul),
                  &matmul_of_samples};

/// A product whose operands are seen as matrices (a vector as a row or a column), with the resulting shapes.
struct Product {
  const char* name;
  Tensor a, b;  // (..., m, k) and (..., k, n)
  Shape batch;  // broadcast leading dimensions
  int64_t m, n;
  Shape result;  // without the dimensions that were added to vectors
  Device device;
};

Product product_of(const char* name, const Tensor& a, const Tensor& b) {
  Product p{name, a, b, {}, 1, 1, {}, common_device(name, {&a, &b})};
  require<DTypeError>(is_floating(a.dtype()) && a.dtype() == b.dtype(), name,
                      ": expected two operands of one floating dtype, got ", describe(a), " and ",
                      describe(b));
  require<ShapeError>(a.ndim() >= 1 && b.ndim() >= 1, name,
                      ": expected operands of at least one dimension, got ", describe(a), " and ",
                      describe(b));
  if (a.ndim() == 1) p.a = a.unsqueeze(0);
  if (b.ndim() == 1) p.b = b.unsqueeze(1);
  require<ShapeError>(p.a.size(-1) == p.b.size(-2), name, ": the first operand has ", p.a.size(-1),
                      " columns, the second ", p.b.size(-2), " rows; got ", describe(a), " and ",
                      describe(b));
  p.batch = broadcast_shapes(batch_dims(p.a.shape()), batch_dims(p.b.shape()), name);
  p.m = p.a.size(-2);
  p.n = p.b.size(-1);
  p.result = p.batch;
  if (a.ndim() > 1) p.result.push_back(p.m);
  if (b.ndim() > 1) p.result.push_back(p.n);
  return p;
}

Tensor with_layout_for_gemm(const Tensor& x) {
  return matrix_layout(x) ? x : x.contiguous();
}

Shape matrix_shape(const Shape& batch, int64_t rows, int64_t columns) {
  Shape shape = batch;
  shape.push_back(rows);
  shape.push_back(columns);
  return shape;
}

/// One product over all rows where the second operand is one matrix: (batch..., m, k) is (batch * m, k).
bool join_rows(Tensor& a, const Tensor& b, Tensor& out) {
  if (b.ndim() != 2 || a.ndim() == 2 || matrix_layout(a)->transposed) return false;
  if (!rows_are_even(a) || !rows_are_even(out)) return false;
  a = a.flatten(0, -2);
  out = out.flatten(0, -2);
  return true;
}

/// Computes `p` into `target` (batch..., m, n), which a row-major GEMM can write.
void run(const Product& p, const Tensor& bias, const Tensor& target, bool accumulate) {
  const int64_t k = p.a.size(-1);
  // Called right before the kernel: a profile assigns operations to the next kernel.
  const auto count = [&] { count_flops(2 * target.numel() * k); };
  if (p.device.is_meta() || target.numel() == 0) return count();
  Tensor a = p.a, b = p.b, out = target;
  if (k == 0) {
    if (!accumulate) out.zero();
    if (bias.defined()) out.copy_from(bias.expand(out.shape()));
    return;
  }
  a = with_layout_for_gemm(a);
  b = with_layout_for_gemm(b);
  if (!join_rows(a, b, out)) {
    a = a.expand(matrix_shape(p.batch, p.m, k));
    b = b.expand(matrix_shape(p.batch, k, p.n));
  }
  count();
  matmul_kernel(p.device, a, b, bias, out, accumulate);
}

void check_out(const Product& p, const Tensor& out) {
  const DType dtype = p.a.dtype();
  require<ShapeError>(out.shape() == p.result, p.name, ": expected an out of the product's shape ", p.result,
                      ", got ", describe(out));
  require<DTypeError>(out.dtype() == dtype || (out.dtype() == f32 && size_of(dtype) == 2), p.name,
                      ": expected an out of ", dtype, size_of(dtype) == 2 ? " or f32" : "", ", got ",
                      describe(out));
  common_device(p.name, {&p.a, &out});
  require_distinct_elements(p.name, out);
}

std::atomic<int> squares_scopes{0};

void into(const char* name, const Tensor& out, const Tensor& a, const Tensor& b, bool accumulate) {
  common_device(name, {&out, &a, &b});
  const Product p = product_of(name, a, b);
  check_out(p, out);
  Tensor target = out;
  if (a.ndim() == 1) target = target.unsqueeze(b.ndim() == 1 ? target.ndim() : target.ndim() - 1);
  if (b.ndim() == 1) target = target.unsqueeze(target.ndim());
  const auto layout = matrix_layout(target);
  // Elements of operands are read more than once, so `out` may not overlap them.
  const bool apart = overlap_of(out, a) == Overlap::none && overlap_of(out, b) == Overlap::none;
  if (apart && layout && !layout->transposed) {
    const WantedSquares squares(out, a);
    run(p, {}, target, accumulate);
    out.bump_version();
    squares.note(out);
    return;
  }
  if (out.is_meta()) {
    run(p, {}, target, accumulate);
  } else {
    const Tensor copy =
        accumulate ? target.clone() : Tensor::empty(target.shape(), out.dtype(), out.device());
    run(p, {}, copy, accumulate);
    return target.copy_from(copy);
  }
  out.bump_version();
}

}  // namespace

WantedSquares::WantedSquares(const Tensor& out, const Tensor& operand) {
  kernels::cpu::product_squares = {
      squares_scopes.load(std::memory_order_relaxed) > 0 && out.defined() && out.dtype() == f32 &&
      (operand.dtype() == bf16 || operand.dtype() == f32) && out.device().is_cpu()};
}
WantedSquares::~WantedSquares() {
  kernels::cpu::product_squares = {};
}
void WantedSquares::note(const Tensor& out) const {
  if (kernels::cpu::product_squares.sum) out.note_squares(*kernels::cpu::product_squares.sum);
}

ProductSquaresScope::ProductSquaresScope() {
  squares_scopes.fetch_add(1, std::memory_order_relaxed);
}
ProductSquaresScope::~ProductSquaresScope() {
  squares_scopes.fetch_sub(1, std::memory_order_relaxed);
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  const Product p = product_of("matmul", a, b);
  const Tensor out = Tensor::empty(matrix_shape(p.batch, p.m, p.n), a.dtype(), p.device);
  run(p, {}, out, false);
  return out.view(p.result);
}

void matmul_out(const Tensor& out, const Tensor& a, const Tensor& b) {
  into("matmul_out", out, a, b, false);
}

void matmul_accumulate(const Tensor& out, const Tensor& a, const Tensor& b) {
  into("matmul_accumulate", out, a, b, true);
}

void check_linear(const char* name, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  common_device(name, {&x, &weight});
  require<ShapeError>(x.ndim() >= 1 && weight.ndim() == 2, name,
                      ": expected x (..., in) and a weight (out, in), got ", describe(x), " and ",
                      describe(weight));
  require<ShapeError>(x.size(-1) == weight.size(1), name, ": input has ", x.size(-1),
                      " features, the weight ", weight.shape(), " takes ", weight.size(1), "; x is ",
                      describe(x));
  if (!bias.defined()) return;
  require<ShapeError>(bias.ndim() == 1 && bias.size(0) == weight.size(0), name, ": the weight ",
                      weight.shape(), " takes a bias of ", weight.size(0), ", got ", describe(bias));
  require_same_dtype(name, {&weight, &bias});
  common_device(name, {&x, &weight, &bias});
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_linear("linear", x, weight, bias);
  Product p = product_of("linear", x, weight.transpose(0, 1));
  if (bias.defined()) p.device = common_device("linear", {&x, &weight, &bias});
  const Tensor out = Tensor::empty(matrix_shape(p.batch, p.m, p.n), x.dtype(), p.device);
  run(p, bias.defined() ? bias.contiguous() : bias, out, false);
  return out.view(p.result);
}

}  // namespace ops
}  // namespace tessera
