#include "autograd/functions/matmul.h"

#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/broadcasting.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/ops/matmul.h"

namespace tessera {
namespace {

Variable transposed(const Variable& x) {
  return transpose(x, -1, -2);
}

/// All dimensions but the last as one: (rows, n).
Variable rows_of(const Variable& x) {
  if (x.ndim() == 2) return x;
  int64_t rows = 1;
  for (int i = 0; i + 1 < x.ndim(); ++i) rows *= x.shape()[i];
  return reshape(x, {rows, x.shape().back()});
}

/// a^T b, the gradient of input `input`.
Variable weight_gradient(const Variable& a, const Variable& b, size_t input, const Wanted& wanted) {
  if (grad_mode()) return matmul(transposed(a), b);
  const Device device = b.device().is_batched() ? b.device() : a.device();
  const auto [out, add] = wanted.target(input, {a.size(1), b.size(1)}, a.dtype(), device);
  (add ? ops::matmul_accumulate : ops::matmul_out)(out, a.value().transpose(0, 1), b.value());
  return out;
}

/// The gradients of y = a b, all of at least two dimensions.
Gradients matmul_rule(const Variable& a, const Variable& b, const Variable& dy, const Wanted& wanted,
                      const Shape& sa, const Shape& sb) {
  Gradients gradients(2);
  if (wanted[0]) gradients[0] = sum_to(matmul(dy, transposed(b)), sa);
  if (!wanted[1]) return gradients;
  // The batch shares one matrix: its gradient is one product over all rows.
  if (sb.ndim() == 2 && dy.ndim() == sa.ndim())
    gradients[1] = weight_gradient(rows_of(a), rows_of(dy), 1, wanted);
  else
    gradients[1] = sum_to(matmul(transposed(a), dy), sb);
  return gradients;
}

}  // namespace

Variable matmul(const Variable& a, const Variable& b) {
  if (autocast::lowers(a, b)) [[unlikely]]
    return matmul(autocast::low(a), autocast::low(b));
  // A vector becomes a row or a column; the result loses that dimension.
  if (a.ndim() == 1) return squeeze(matmul(unsqueeze(a, 0), b), b.ndim() == 1 ? 0 : -2);
  if (b.ndim() == 1) return squeeze(matmul(a, unsqueeze(b, 1)), -1);
  return record(
      "matmul", [&] { return ops::matmul(a.value(), b.value()); }, {a, b},
      saved(saved_if(b.requires_grad(), a), saved_if(a.requires_grad(), b)),
      [sa = a.shape(), sb = b.shape()](Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
        return matmul_rule(wanted[1] ? s[0] : Variable(), wanted[0] ? s[1] : Variable(), dy[0], wanted, sa,
                           sb);
      });
}

Variable linear(const Variable& x, const Variable& weight, const Variable& bias) {
  if (autocast::lowers(x, weight, bias)) [[unlikely]]
    return linear(autocast::low(x), autocast::low(weight), autocast::low(bias));
  const auto compute = [&] {
    return ops::linear(x.value(), weight.value(), bias.defined() ? bias.value() : Tensor());
  };
  return record("linear", compute, {x, weight, bias},
                saved(saved_if(weight.requires_grad(), x), saved_if(x.requires_grad(), weight)),
                [width = weight.shape()[0]](Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
                  Gradients gradients(3);
                  if (wanted[0]) gradients[0] = matmul(dy[0], s[1]);
                  if (!wanted[1] && !wanted[2]) return gradients;
                  const Variable rows = rows_of(dy[0].ndim() == 1 ? unsqueeze(dy[0], 0) : dy[0]);
                  if (wanted[1]) {
                    const Variable input = s[0];
                    gradients[1] = weight_gradient(
                        rows, rows_of(input.ndim() == 1 ? unsqueeze(input, 0) : input), 1, wanted);
                  }
                  if (wanted[2]) gradients[2] = sum_to(dy[0], {width}, wanted.dtype(2, dy[0].dtype()));
                  return gradients;
                });
}

}  // namespace tessera
