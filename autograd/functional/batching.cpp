#include "autograd/functional/batching.h"

#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/batched/batched.h"
#include "tensor/ops/reduction.h"

namespace tessera::detail {
namespace {

/// The operations by which values enter a vmap: their rules return gradients of unbatched inputs.
constexpr const char *input_operation = "vmap_input", *share_operation = "vmap_share";

/// Dimension 0 as dimension `dim`.
Variable with_samples_at(const Variable& x, int64_t dim) {
  Shape order;
  for (int i = 1; i < x.ndim(); ++i) order.push_back(i);
  order.insert(dim, 0);
  return permute(x, order);
}

/// Whether the samples are the elements of a storage of their own, one after another: then a result that is
/// changed in place changes nothing else.
bool owns_samples(const Tensor& x) {
  const Storage& storage = *x.storage();
  return x.device().samples > 1 && storage.sample_stride() == storage.nbytes() &&
         x.nbytes() == storage.nbytes() && x.is_contiguous();
}

/// (samples, ...) on the CPU, of a batched x.
Variable first_dimension(const Variable& x, int32_t samples) {
  const Tensor all = batched::all_samples(x.value(), samples);
  const Tensor result = owns_samples(x.value()) ? all.with_version_of(x.value()) : all.clone();
  return record(
      "vmap_result", result, {x}, saved(),
      [](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {to_samples(dy[0], 0)}; });
}

}  // namespace

Variable to_samples(const Variable& x, int64_t dim) {
  const Tensor value = batched::from_dim(x.value(), dim);
  dim = normalize_dim(dim, x.ndim(), "vmap");
  const Variable samples =
      record(input_operation, value, {x}, saved(),
             [dim, n = value.device().samples](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
               return {from_samples(dy[0], dim, n)};
             });
  mark_as_view(samples, x, ViewKind::one_of_several);
  return samples;
}

Variable from_samples(const Variable& x, int64_t dim, int32_t samples) {
  if (!x.device().is_batched()) return from_samples(share_with_samples(x, samples), dim, samples);
  dim = normalize_dim(dim, x.ndim() + 1, "vmap");
  const Variable first = first_dimension(x, samples);
  return dim == 0 ? first : with_samples_at(first, dim);
}

Variable share_with_samples(const Variable& x, int32_t samples) {
  const Variable shared = record(share_operation, batched::shared(x.value(), samples), {x}, saved(),
                                 [samples](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                                   return {sum_of_samples(dy[0], samples)};
                                 });
  mark_as_view(shared, x, ViewKind::one_of_several);
  return shared;
}

Variable sum_of_samples(const Variable& x, int32_t samples) {
  return record("vmap_sum", ops::sum(batched::all_samples(x.value(), samples), {0}), {x}, saved(),
                [samples](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                  return {share_with_samples(dy[0], samples)};
                });
}

void link_shared_inputs(Node& node, std::span<const Variable> inputs, int32_t samples) {
  if (node.name() == input_operation || node.name() == share_operation) return;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Edge& edge = node.edges[i];
    if (!edge.node || inputs[i].device().is_batched()) continue;
    const auto rule = [samples](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
      if (batched::current_samples() > 0)
        throw_no_batching_rule("a gradient by a tensor that all samples share");
      return {sum_of_samples(dy[0], samples)};
    };
    intrusive_ptr<Node> sum(new RuleNode<decltype(rule)>("vmap_sum", rule));
    sum->outputs.push_back({inputs[i].shape(), inputs[i].dtype()});
    sum->edges.push_back(std::move(edge));
    edge = Edge(std::move(sum), 0);
  }
}

}  // namespace tessera::detail
