#include "tensor/ops/layers/gated.h"

#include "tensor/cpu/layers/gated.h"
#include "tensor/cuda/layers/gated.h"
#include "tensor/ops/kernel.h"
#include "tensor/overlap.h"

namespace tessera {

const char* to_string(Gate f) {
  static constexpr const char* names[] = {"sigmoid", "silu", "gelu", "gelu_tanh", "relu"};
  return names[static_cast<size_t>(f)];
}

namespace ops {
namespace {

constexpr Kernel<void(Gate, const Tensor&, const Tensor&, const Tensor&)> forward_kernel{
    "gated", &kernels::cpu::gated, TESSERA_CUDA_KERNEL(kernels::cuda::gated)};
constexpr Kernel<void(Gate, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&)>
    backward_kernel{"gated_backward", &kernels::cpu::gated_backward,
                    TESSERA_CUDA_KERNEL(kernels::cuda::gated_backward)};

void check(const char* where, std::initializer_list<const Tensor*> operands) {
  const Tensor& first = **operands.begin();
  require_floating(where, first);
  require_same_dtype(where, operands);
  for (const Tensor* x : operands)
    require<ShapeError>(x->shape() == first.shape(), where, ": expected tensors of one shape, got ",
                        first.shape(), " and ", x->shape());
}

/// How tensors of one shape are seen as (rows, n): the dimensions from `dim` on make a row.
struct RowView {
  int64_t rows = 1, n = 1;
  RowView(const Shape& shape, int dim) {
    for (int i = 0; i < shape.ndim(); ++i) (i < dim ? rows : n) *= shape[i];
  }
};

/// x as (rows, n) with a last stride of 1, without a copy; undefined where its strides do not allow that.
Tensor in_rows(const Tensor& x, const RowView& view, int dim) {
  const Shape& shape = x.shape();
  int64_t expected = 1, row_stride = view.n;
  for (int i = shape.ndim() - 1; i >= dim; --i) {
    if (shape[i] != 1 && x.strides()[i] != expected) return {};
    expected *= shape[i];
  }
  bool first = true;
  for (int i = dim - 1; i >= 0; --i) {
    if (shape[i] == 1) continue;
    if (first) expected = row_stride = x.strides()[i];
    if (x.strides()[i] != expected) return {};
    first = false;
    expected *= shape[i];
  }
  return x.as_strided({view.rows, view.n}, Strides{row_stride, 1}, x.offset());
}

/// The same for an operand, by a copy where it has to be.
Tensor operand(const Tensor& x, const RowView& view, int dim) {
  const Tensor rows = in_rows(x, view, dim);
  return rows.defined() ? rows : in_rows(x.contiguous(), view, dim);
}

/// The same for a result; with `copy_back` it is a tensor that has to be copied to x afterwards.
Tensor result(const Tensor& x, const RowView& view, int dim, bool& copy_back) {
  const Tensor rows = in_rows(x, view, dim);
  copy_back = !rows.defined();
  return copy_back ? Tensor::empty({view.rows, view.n}, x.dtype(), x.device()) : rows;
}

/// The dimension from which on a row of these tensors is contiguous in all of them.
int first_contiguous(std::initializer_list<const Tensor*> tensors) {
  const int ndim = (*tensors.begin())->ndim();
  for (int dim = 0; dim < ndim; ++dim) {
    bool fits = true;
    for (const Tensor* x : tensors) fits &= in_rows(*x, RowView(x->shape(), dim), dim).defined();
    if (fits) return dim;
  }
  return 0;
}

void run_backward(Gate f, const Tensor& gate, const Tensor& x, const Tensor& dy, const Tensor& dgate,
                  const Tensor& dx, Device device) {
  if (device.is_meta() || x.numel() == 0) return;
  const int dim = first_contiguous({&gate, &x, &dy, &dgate, &dx});
  const RowView view(x.shape(), dim);
  bool copy_gate = false, copy_x = false;
  const Tensor gate_rows = result(dgate, view, dim, copy_gate), x_rows = result(dx, view, dim, copy_x);
  backward_kernel(device, f, operand(gate, view, dim), operand(x, view, dim), operand(dy, view, dim),
                  gate_rows, x_rows);
  if (copy_gate) dgate.copy_from(gate_rows.view(dgate.shape()));
  if (copy_x) dx.copy_from(x_rows.view(dx.shape()));
}

/// The halves of x along `dim`.
struct Halves {
  Tensor first, second;
  Halves(const Tensor& x, int64_t dim)
      : first(x.narrow(dim, 0, x.size(dim) / 2)), second(x.narrow(dim, x.size(dim) / 2, x.size(dim) / 2)) {}
};

int64_t checked_dim(const Tensor& x, int64_t dim) {
  require_floating("glu", x);
  dim = normalize_dim(dim, x.ndim(), "glu");
  require<ShapeError>(x.ndim() >= 1 && x.size(dim) % 2 == 0,
                      "glu: expected a dimension that two divides, got ", x.shape(), " along ", dim);
  return dim;
}

}  // namespace

Tensor gated(Gate f, const Tensor& gate, const Tensor& x) {
  const Device device = common_device("gated", {&gate, &x});
  check("gated", {&gate, &x});
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), device);
  if (device.is_meta() || x.numel() == 0) return y;
  const int dim = first_contiguous({&gate, &x});
  const RowView view(x.shape(), dim);
  forward_kernel(device, f, operand(gate, view, dim), operand(x, view, dim), operand(y, view, dim));
  return y;
}

void gated_backward(Gate f, const Tensor& gate, const Tensor& x, const Tensor& dy, const Tensor& dgate,
                    const Tensor& dx) {
  const char* name = "gated_backward";
  const Device device = common_device(name, {&gate, &x, &dy, &dgate, &dx});
  check(name, {&gate, &x, &dy, &dgate, &dx});
  for (const Tensor* out : {&dgate, &dx}) {
    require_distinct_elements(name, *out);
    require_no_overlap(name, *out, {&gate, &x, &dy});
  }
  require_no_overlap(name, dgate, {&dx});
  run_backward(f, gate, x, dy, dgate, dx, device);
}

Tensor glu(const Tensor& x, int64_t dim) {
  const Halves halves(x, checked_dim(x, dim));
  return gated(Gate::sigmoid, halves.second, halves.first);
}

Tensor glu_backward(const Tensor& x, const Tensor& dy, int64_t dim) {
  const Device device = common_device("glu_backward", {&x, &dy});
  dim = checked_dim(x, dim);
  const Tensor dx = Tensor::empty(x.shape(), x.dtype(), device);
  const Halves halves(x, dim), gradients(dx, dim);
  check("glu_backward", {&halves.first, &dy});
  run_backward(Gate::sigmoid, halves.second, halves.first, dy, gradients.second, gradients.first, device);
  return dx;
}

}  // namespace ops
}  // namespace tessera
