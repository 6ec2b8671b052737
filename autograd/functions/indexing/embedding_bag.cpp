#include "autograd/functions/indexing/embedding_bag.h"

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/ternary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/indexing/advanced_indexing.h"
#include "tensor/ops/indexing/indexing.h"
#include "tensor/ops/indexing/sorting.h"
#include "tensor/ops/shaping.h"

namespace tessera {
namespace {

/// Ids in a row with the offset of each bag, without those of padding.
struct Bags {
  Tensor ids, offsets;
  Variable factors;
};

/// Bag by bag, whatever form was given.
Bags joined(const Tensor& ids, const Tensor& offsets, const EmbeddingBagOptions& o, const Variable& factors) {
  const char* where = "embedding_bag";
  require<ShapeError>(!factors.defined() || factors.shape() == ids.shape(), where,
                      ": expected per_sample_weights of the ids' shape ", ids.shape(), ", got ", factors);
  if (ids.ndim() == 2) {
    require<ValueError>(!offsets.defined(), where, ": ids (B, L) need no offsets");
    const int64_t bags = ids.size(0), length = ids.size(1);
    return {ids.reshape({bags * length}), ops::mul(ops::arange(bags, i64, ids.device()), Scalar(length)),
            factors.defined() ? reshape(factors, {bags * length}) : factors};
  }
  require<ShapeError>(ids.ndim() == 1, where, ": expected ids (N) or (B, L), got ", describe(ids));
  require<ValueError>(offsets.defined(), where, ": ids (N) need offsets, which are undefined");
  require<ShapeError>(offsets.ndim() == 1 && offsets.numel() >= (o.include_last_offset ? 1 : 0), where,
                      ": expected offsets (B), got ", describe(offsets));
  if (!o.include_last_offset) return {ids, offsets, factors};
  const int64_t bags = offsets.numel() - 1;
  ops::check_last_offset(offsets, ids.numel());
  return {ids, offsets.narrow(0, 0, bags), factors};
}

/// The bags without the ids of padding.
Bags without_padding(const Bags& bags, int64_t padding) {
  if (bags.ids.is_meta()) return bags;
  const int64_t ids = bags.ids.numel();
  ops::bags_of(bags.offsets, ids);  // checks them
  const Tensor is_kept = ops::not_equal(bags.ids, Scalar(padding));
  const Tensor positions = ops::nonzero(is_kept).squeeze(1);
  // An offset becomes the number of ids kept before it.
  const Tensor kept_before[] = {Tensor::zeros({1}, i64, bags.ids.device()), ops::cumsum(is_kept, 0)};
  return {ops::index_select(bags.ids, 0, positions),
          ops::index_select(ops::cat(kept_before), 0, bags.offsets),
          bags.factors.defined() ? index_select(bags.factors, 0, positions) : bags.factors};
}

/// 1 / the number of ids in the bag of each id.
Variable reciprocal_counts(const Bags& bags, DType dtype) {
  const int64_t ids = bags.ids.numel(), count = bags.offsets.numel();
  const Device device = bags.ids.device();
  if (device.is_meta() || count == 0) return Tensor::empty({ids}, dtype, device);
  const Tensor bag = ops::bags_of(bags.offsets, ids);
  const Tensor ends[] = {bags.offsets.narrow(0, 1, count - 1), ops::full({1}, ids, i64, device)};
  const Tensor counts = ops::cast(ops::sub(ops::cat(ends), bags.offsets), f64);
  return ops::cast(ops::index_select(ops::reciprocal(counts), 0, bag), dtype);
}

/// Each id's row of dy, times its factor.
Variable rows_of(const Variable& dy, const Tensor& bag, const Variable& factors) {
  const Variable rows = index_select(dy, 0, bag);
  return factors.defined() ? rows * unsqueeze(factors, 1) : rows;
}

Variable sum_bags(const Bags& bags, const Variable& weight) {
  const Tensor factors = bags.factors.defined() ? bags.factors.value() : Tensor();
  return record("embedding_bag", ops::embedding_bag(bags.ids, weight.value(), bags.offsets, factors),
                {weight, bags.factors},
                saved(bags.ids, bags.offsets, bags.factors, saved_if(bags.factors.requires_grad(), weight)),
                [table = weight.shape()](Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
                  Gradients gradients(2);
                  const Tensor ids = s.tensor(0), bag = ops::bags_of(s.tensor(1), ids.numel());
                  const Variable scale = s.defined(2) ? s[2] : Variable();
                  if (wanted[0] && grad_mode()) {
                    gradients[0] = index_add(Tensor::zeros(table, dy[0].dtype(), dy[0].device()), 0, ids,
                                             rows_of(dy[0], bag, scale));
                  } else if (wanted[0]) {
                    const auto [out, add] = wanted.target(0, table, dy[0].dtype(), dy[0].device());
                    if (!add) out.zero();
                    ops::embedding_accumulate(out, rows_of(dy[0], bag, scale).value(), ids);
                    gradients[0] = out;
                  }
                  if (wanted[1]) gradients[1] = sum(embedding(ids, s[3]) * index_select(dy[0], 0, bag), {1});
                  return gradients;
                });
}

Variable max_of_bags(const Bags& bags, const Variable& weight) {
  const Tensor rows = ops::embedding_bag_max_rows(bags.ids, weight.value(), bags.offsets);
  const Tensor empty = ops::equal(rows, Scalar(weight.size(0)));
  return masked_fill(gather(weight, 0, ops::where(empty, Tensor::zeros_like(rows), rows)), empty, 0);
}

}  // namespace

Variable embedding_bag(const Tensor& ids, const Variable& weight, const Tensor& offsets,
                       const EmbeddingBagOptions& options, const Variable& per_sample_weights) {
  require<ValueError>(!per_sample_weights.defined() || options.mode == BagMode::sum,
                      "embedding_bag: per_sample_weights are for the mode sum");
  require<ValueError>(options.padding_idx >= -1 && options.padding_idx < weight.size(0),
                      "embedding_bag: padding_idx ", options.padding_idx, " is outside the table's ",
                      weight.size(0), " rows");
  Bags bags = joined(ids, offsets, options, per_sample_weights);
  if (options.padding_idx >= 0) bags = without_padding(bags, options.padding_idx);
  if (options.mode == BagMode::max) return max_of_bags(bags, weight);
  if (options.mode == BagMode::mean) bags.factors = reciprocal_counts(bags, weight.dtype());
  return sum_bags(bags, weight);
}

}  // namespace tessera
