#include "optim/gradient_squares.h"

#include "tensor/ops/training/multi_tensor.h"

namespace tessera::optim {

namespace {

// Elements of gradients that are still in the second-level caches when all are computed, and of one that
// takes less time than a parallel loop of its own.
constexpr int64_t in_caches = 1 << 20, few = 1 << 14;

}  // namespace

GradientSquares::GradientSquares(const ParameterList& parameters) {
  if (parameters.reducer()) return;
  products_.emplace();
  sums_.reserve(parameters.size());
  hooks_.reserve(parameters.size());
  int64_t all = 0;
  for (const NamedParameter& parameter : parameters)
    if (parameter.variable.requires_grad()) all += parameter.variable.numel();
  for (const NamedParameter& parameter : parameters) {
    if (!parameter.variable.requires_grad()) continue;
    Sum& sum = sums_[parameter.variable.impl().get()];
    const bool pays = all > in_caches && parameter.variable.numel() > few;
    hooks_.push_back(parameter.variable.register_post_accumulate_grad_hook([&sum, pays](const Variable& of) {
      const Variable gradient = of.grad();
      if (!gradient.defined() || !gradient.device().is_cpu()) return;
      const Tensor values = gradient.value();
      if (const std::optional<double> noted = values.noted_squares())
        sum = {values, values.version(), *noted};
      else if (pays)
        sum = {values, values.version(), ops::power_sums({&values, 1}, 2.0).item()};
    }));
  }
}

GradientSquares::~GradientSquares() {
  for (HookHandle& hook : hooks_) hook.remove();
}

std::optional<double> GradientSquares::sum(const Variable& parameter) const {
  const auto found = sums_.find(parameter.impl().get());
  const Variable gradient = parameter.grad();
  if (found == sums_.end() || !found->second.gradient.defined() || !gradient.defined()) return std::nullopt;
  const Sum& sum = found->second;
  const Tensor values = gradient.value();
  if (!values.shares_storage(sum.gradient) || values.version() != sum.version) return std::nullopt;
  return sum.value;
}

}  // namespace tessera::optim
