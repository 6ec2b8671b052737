// Gradients and vmap, as functions of functions.

#include "autograd/functional/transforms.h"

#include "autograd/functional/batching.h"
#include "autograd/functional/own_input.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "autograd/grad_mode.h"
#include "tensor/random/random_context.h"

namespace tessera::autograd::functional::detail {
namespace {

using Variables = std::vector<Variable>;

/// The number of samples, which all inputs with a dimension of samples have.
int64_t sample_count(const Variables& inputs, const std::vector<std::optional<int64_t>>& dims) {
  int64_t count = -1;
  size_t first = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!dims[i]) continue;
    require<ValueError>(inputs[i].defined(), "vmap: input ", i, " is undefined; its in_dim must be nullopt");
    const int64_t size = inputs[i].size(normalize_dim(*dims[i], inputs[i].ndim(), "vmap"));
    if (count < 0) {
      count = size;
      first = i;
    }
    require<ShapeError>(size == count, "vmap: input ", first, " has ", count, " samples, and input ", i, ", ",
                        inputs[i], ", has ", size, " along dimension ", *dims[i]);
  }
  require<ValueError>(count >= 0, "vmap: at least one input must have a dimension of samples");
  require<ValueError>(count > 0, "vmap: there are no samples, so the shape of the results is not known");
  return count;
}

/// The samples of an input, as the results of one operation: its gradient is one `cat`.
Variables samples_of(const Variable& x, int64_t dim, int64_t count) {
  const std::vector<int64_t> sizes(static_cast<size_t>(count), 1);
  Variables samples = split(x, sizes, dim);
  for (Variable& sample : samples) sample = squeeze(sample, dim);
  return samples;
}

using Dims = std::vector<std::optional<int64_t>>;

/// The function once, on all samples. Throws NoBatchingRule.
Variables apply_to_all(const MultiFunction& function, const Variables& inputs, const Dims& dims,
                       int64_t count, const VmapOptions& options) {
  for (const Variable& input : inputs)
    if (input.defined() && !input.device().is_cpu()) throw NoBatchingRule(to_string(input.device()));
  const auto samples = static_cast<int32_t>(count);
  Variables arguments = inputs, results;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (dims[i]) arguments[i] = tessera::detail::to_samples(inputs[i], *dims[i]);
  {
    const batched::Scope scope(samples, options.randomness);
    results = function(arguments);
  }
  for (size_t r = 0; r < results.size(); ++r) {
    require<ValueError>(results[r].defined(), "vmap: result ", r, " of the function is undefined");
    results[r] = tessera::detail::from_samples(results[r], options.out_dim, samples);
  }
  return results;
}

/// The function on one sample after another.
Variables apply_in_loop(const MultiFunction& function, const Variables& inputs, const Dims& dims,
                        int64_t count, const VmapOptions& options) {
  std::vector<Variables> samples(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (dims[i]) samples[i] = samples_of(inputs[i], normalize_dim(*dims[i], inputs[i].ndim(), "vmap"), count);
  const batched::Scope scope(0, options.randomness);
  const RandomContext random = random_context();
  std::vector<Variables> results;  // of each result, those of the samples
  Variables arguments = inputs;
  for (int64_t n = 0; n < count; ++n) {
    if (options.randomness == Randomness::same) random_context() = random;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (dims[i]) arguments[i] = samples[i][static_cast<size_t>(n)];
    Variables of_sample = function(arguments);
    if (n == 0) results.resize(of_sample.size());
    require<ValueError>(of_sample.size() == results.size(), "vmap: the function returned ", results.size(),
                        " results for sample 0 and ", of_sample.size(), " for sample ", n);
    for (size_t r = 0; r < results.size(); ++r) results[r].push_back(std::move(of_sample[r]));
  }
  Variables stacked;
  for (const Variables& list : results) stacked.push_back(stack(list, options.out_dim));
  return stacked;
}

}  // namespace

Variables apply_to_samples(const MultiFunction& function, const Variables& inputs,
                           const VmapOptions& options) {
  Dims dims = options.in_dims;
  if (dims.empty()) dims.assign(inputs.size(), 0);
  require<ValueError>(dims.size() == inputs.size(), "vmap: in_dims has ", dims.size(), " entries for ",
                      inputs.size(), " inputs");
  const int64_t count = sample_count(inputs, dims);
  if (batched::current_samples() > 0) throw_no_batching_rule("vmap");  // the outer one becomes a loop
  if (options.always_loop) return apply_in_loop(function, inputs, dims, count, options);
  const RandomContext random = random_context();
  try {
    return apply_to_all(function, inputs, dims, count, options);
  } catch (const NoBatchingRule& error) {
    random_context() = random;
    if (options.on_fallback) options.on_fallback(error.operation());
  }
  return apply_in_loop(function, inputs, dims, count, options);
}

Variables value_and_gradients(const MultiFunction& function, const Variables& inputs,
                              const std::vector<size_t>& argnums) {
  require<ValueError>(!argnums.empty(), "grad: expected at least one argument to differentiate by");
  const bool recorded = grad_mode();
  const EnableGrad enable_grad;
  Variables own = inputs, wanted;
  for (size_t argnum : argnums) {
    require<IndexError>(argnum < inputs.size(), "grad: by argument ", argnum, " of ", inputs.size());
    own[argnum] = tessera::detail::own_input(inputs[argnum], recorded);
    wanted.push_back(own[argnum]);
  }
  Variables results = function(own);
  require<ShapeError>(results.size() == 1 && results[0].numel() == 1,
                      "grad: expected a function with one result of one element, got ", results.size(),
                      results.size() == 1 ? " result" : " results",
                      results.empty() ? "" : ", the first of " + to_string(results[0]));
  Variables gradients(wanted.size());
  if (results[0].requires_grad())
    gradients = tessera::grad(results, wanted, {}, {.create_graph = recorded, .allow_unused = true});
  for (size_t i = 0; i < gradients.size(); ++i)
    if (!gradients[i].defined()) gradients[i] = Tensor::zeros_like(wanted[i].value());
  if (!recorded) results[0] = results[0].detach();
  results.insert(results.end(), gradients.begin(), gradients.end());
  return results;
}

Variables gradients(const MultiFunction& function, const Variables& inputs,
                    const std::vector<size_t>& argnums) {
  Variables results = value_and_gradients(function, inputs, argnums);
  results.erase(results.begin());
  return results;
}

}  // namespace tessera::autograd::functional::detail
