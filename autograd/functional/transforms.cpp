// Gradients and loops over samples, as functions of functions.

#include "autograd/functional/transforms.h"

#include "autograd/functional/own_input.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "autograd/grad_mode.h"

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

}  // namespace

Variables apply_to_samples(const MultiFunction& function, const Variables& inputs,
                           const VmapOptions& options) {
  std::vector<std::optional<int64_t>> dims = options.in_dims;
  if (dims.empty()) dims.assign(inputs.size(), 0);
  require<ValueError>(dims.size() == inputs.size(), "vmap: in_dims has ", dims.size(), " entries for ",
                      inputs.size(), " inputs");
  const int64_t count = sample_count(inputs, dims);
  std::vector<Variables> samples(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (dims[i]) samples[i] = samples_of(inputs[i], normalize_dim(*dims[i], inputs[i].ndim(), "vmap"), count);

  std::vector<Variables> results;  // of each result, those of the samples
  Variables arguments = inputs;
  for (int64_t n = 0; n < count; ++n) {
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
