#include "optim/gradient_squares.h"

#include "tensor/ops/training/multi_tensor.h"

namespace tessera::optim {

namespace {

// Elements of gradients that are still in the second-level caches when all are computed, and of one that
// takes less time than a parallel loop of its own.
constexpr int64_t in_caches = 1 << 20, few = 1 << 14;

int64_t trained_elements(const ParameterList& parameters) {
  int64_t all = 0;
  for (const NamedParameter& parameter : parameters)
    if (parameter.requires_grad()) all += parameter.variable.numel();
  return all;
}

}  // namespace

GradientSquares::GradientSquares(const ParameterList& parameters, int64_t backwards) {
  const bool pass_pays = trained_elements(parameters) > in_caches;
  if (parameters.reducer()) {
    if (!pass_pays) return;
    reduced_ = parameters;
    reduced_.reducer()->take_squares(reduced_, backwards);
    return;
  }
  products_.emplace();
  hooks_.reserve(parameters.size());
  left_.assign(parameters.size(), backwards);
  int64_t* next_left = left_.data();
  for (const NamedParameter& parameter : parameters) {
    if (!parameter.requires_grad()) continue;
    const bool pays = pass_pays && parameter.variable.numel() > few;
    hooks_.push_back(parameter.variable.register_post_accumulate_grad_hook(
        [pays, backwards, left = next_left++](const Variable& of) {
          if (--*left > 0) return;
          *left = backwards;
          const Variable gradient = of.grad();
          if (!pays || !gradient.defined() || !gradient.device().is_cpu()) return;
          const Tensor values = gradient.value();
          if (values.is_contiguous()) values.note_squares(ops::power_sums({&values, 1}, 2.0).item());
        }));
  }
}

GradientSquares::~GradientSquares() {
  for (HookHandle& hook : hooks_) hook.remove();
  if (reduced_.reducer()) reduced_.reducer()->take_squares(reduced_, 0);
}

}  // namespace tessera::optim
