#include "autograd/functions/indexing/indexing.h"

#include <string_view>

#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/broadcasting.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/shaping.h"
#include "autograd/record.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/indexing/embedding_add.h"
#include "tensor/ops/indexing/indexing.h"
#include "tensor/random/random_context.h"

namespace tessera {
namespace {

Variable zeros_of(const Shape& shape, const Variable& like) {
  return Tensor::zeros(shape, like.dtype(), like.device());
}

/// The gradient of `embedding` for its table (V, C), differentiable, in `dtype`: dy's, or f32 for a dy of a
/// half type.
Variable embedding_gradient(const Variable& dy, const Tensor& ids, const Shape& table, DType dtype) {
  const Tensor out =
      Tensor::zeros(table, dtype == f32 && size_of(dy.dtype()) == 2 ? f32 : dy.dtype(), dy.device());
  ops::embedding_accumulate(out, dy.value(), ids);
  return record("embedding_gradient", out, {dy}, saved(ids),
                [type = dy.dtype()](Saved& s, const Incoming& ddy, const Wanted&) -> Gradients {
                  return {cast(embedding(s.tensor(0), ddy[0]), type)};
                });
}

/// dy with zeros in the rows of padding.
Variable without_padding(const Variable& dy, const Tensor& ids, int64_t padding_idx) {
  const Tensor is_padding = ops::equal(ids, Scalar(padding_idx)).unsqueeze(ids.ndim());
  return masked_fill(dy, is_padding, 0);
}

/// Whether `embedding` computed x: it accumulates in f32, so the gradient of x need not be rounded to x's
/// half type. (Other operations take gradients of their result's type.)
bool is_embedding_output(const Variable& x) {
  return x.node() && std::string_view(x.node()->name()) == "embedding";
}

/// The gradient of a scatter's source, which may be larger than the index.
Variable source_gradient(const Variable& dy, int64_t dim, const Tensor& index, const Shape& source) {
  const Variable gathered = gather(dy, dim, index);
  Shape after = source;
  for (int i = 0; i < source.ndim(); ++i) after[i] -= index.shape()[i];
  return index.shape() == source ? gathered : pad(gathered, Shape::filled(source.ndim(), 0), after);
}

}  // namespace

Variable embedding(const Tensor& ids, const Variable& weight, int64_t padding_idx) {
  require<ValueError>(padding_idx >= -1 && padding_idx < weight.size(0), "embedding: padding_idx ",
                      padding_idx, " is outside the table's ", weight.size(0), " rows");
  return record("embedding", ops::embedding(ids, weight.value()), {weight}, saved(ids),
                [table = weight.shape(), padding_idx](Saved& s, const Incoming& incoming,
                                                      const Wanted& wanted) -> Gradients {
                  const Variable dy =
                      padding_idx < 0 ? incoming[0] : without_padding(incoming[0], s.tensor(0), padding_idx);
                  if (grad_mode())
                    return {embedding_gradient(dy, s.tensor(0), table, wanted.dtype(0, dy.dtype()))};
                  const auto [out, add] = wanted.target(0, table, dy.dtype(), dy.device());
                  if (!add) out.zero();
                  ops::embedding_accumulate(out, dy.value(), s.tensor(0));
                  return {out};
                });
}

Variable embedding_add(const Tensor& ids, const Variable& weight, const Variable& addend,
                       const DropoutMask& given_mask) {
  if (autocast::mixes(weight, addend)) [[unlikely]] {
    const DType dtype = autocast::widest({weight, addend});
    return embedding_add(ids, autocast::in_dtype(weight, dtype), autocast::in_dtype(addend, dtype),
                         given_mask);
  }
  DropoutMask mask = given_mask;
  if (mask.samples.kind == SampleLayout::Kind::first) mask.samples = samples_along(0);  // ids (B, T)
  const Variable y = record(
      "embedding_add", ops::embedding_add(ids, weight.value(), addend.value(), mask), {weight, addend},
      saved(ids),
      [mask, table = weight.shape(), addend_is_embedding = is_embedding_output(addend),
       context = mask.probability == 0 ? RandomContext() : random_context().without_calls()](
          Saved& s, const Incoming& dout, const Wanted& wanted) -> Gradients {
        RandomContextScope forward_context(context);
        const Variable dy = mask.probability == 0 ? dout[0] : dropout(dout[0], mask);
        const Tensor saved_index = s.tensor(0);
        const DType own = dy.dtype(), sum_dtype = own == f64 ? f64 : f32;
        const Shape addend_shape{dy.size(1), dy.size(2)};
        if (grad_mode())
          return {wanted[0] ? embedding_gradient(dy, saved_index, table, wanted.dtype(0, own)) : Variable(),
                  wanted[1] ? sum_to(dy, addend_shape, wanted.dtype(1, own)) : Variable()};
        Tensor dweight, daddend;
        if (wanted[0]) {
          const GradientTarget target = wanted.target(0, table, sum_dtype, dy.device());
          dweight = target.tensor;
          if (!target.add) dweight.zero();
        }
        if (wanted[1]) daddend = Tensor::zeros(addend_shape, sum_dtype, dy.device());
        ops::embedding_add_backward(dy.value(), saved_index, dweight, daddend);
        if (wanted[1]) daddend = ops::cast(daddend, wanted.dtype(1, addend_is_embedding ? sum_dtype : own));
        return {Variable(dweight), Variable(daddend)};
      });
  if (mask.probability != 0) set_sample_layout(y, mask.samples);
  return y;
}

Variable index_select(const Variable& x, int64_t dim, const Tensor& index) {
  const Variable y =
      record("index_select", ops::index_select(x.value(), dim, index), {x}, saved(index),
             [dim, from = x.shape()](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
               return {index_add(zeros_of(from, dy[0]), dim, s.tensor(0), dy[0])};
             });
  detail::set_layout_after_reordering(x, y, dim);
  return y;
}

Variable index_add(const Variable& x, int64_t dim, const Tensor& index, const Variable& source) {
  const Tensor out = x.value().clone();
  ops::index_add_out(out, dim, index, source.value());
  return record("index_add", out, {x, source}, saved(index),
                [dim](Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
                  return {dy[0], wanted[1] ? index_select(dy[0], dim, s.tensor(0)) : Variable()};
                });
}

Variable gather(const Variable& x, int64_t dim, const Tensor& index) {
  const Variable y =
      record("gather", ops::gather(x.value(), dim, index), {x}, saved(index),
             [dim, from = x.shape()](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
               return {scatter_add(zeros_of(from, dy[0]), dim, s.tensor(0), dy[0])};
             });
  detail::set_layout_after_reordering(x, y, dim);
  return y;
}

Variable scatter(const Variable& x, int64_t dim, const Tensor& index, const Variable& source) {
  return record(
      "scatter", ops::scatter(x.value(), dim, index, source.value()), {x, source}, saved(index),
      [dim, from = source.shape()](Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
        const Tensor saved_index = s.tensor(0);
        return {
            wanted[0] ? scatter(dy[0], dim, saved_index, zeros_of(saved_index.shape(), dy[0])) : Variable(),
            wanted[1] ? source_gradient(dy[0], dim, saved_index, from) : Variable()};
      });
}

Variable scatter_add(const Variable& x, int64_t dim, const Tensor& index, const Variable& source) {
  if (autocast::mixes(x, source)) [[unlikely]] {
    const DType dtype = autocast::widest({x, source});
    return scatter_add(autocast::in_dtype(x, dtype), dim, index, autocast::in_dtype(source, dtype));
  }
  return record(
      "scatter_add", ops::scatter_add(x.value(), dim, index, source.value()), {x, source}, saved(index),
      [dim, from = source.shape()](Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
        return {dy[0], wanted[1] ? source_gradient(dy[0], dim, s.tensor(0), from) : Variable()};
      });
}

Variable take_along(const Variable& x, const Tensor& index, int64_t dim) {
  const Variable y =
      record("take_along", ops::take_along(x.value(), index, dim), {x}, saved(index),
             [dim = normalize_dim(dim, x.ndim(), "take_along"), from = x.shape()](
                 Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
               // The backward of a gather from x, broadcast to the result's extents.
               Shape wide = dy[0].shape();
               wide[dim] = from[dim];
               const Tensor saved_index = s.tensor(0).expand(dy[0].shape());
               return {sum_to(scatter_add(zeros_of(wide, dy[0]), dim, saved_index, dy[0]), from)};
             });
  detail::set_layout_after_reordering(x, y, dim);
  return y;
}

}  // namespace tessera
