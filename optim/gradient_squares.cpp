#include "optim/gradient_squares.h"

#include "tensor/ops/multi_tensor.h"

namespace tessera::optim {
namespace {

void sum_squares(const Variable& parameter) {
  const Variable gradient = parameter.grad();
  if (!gradient.defined() || gradient.device().is_meta()) return;
  const Tensor values = gradient.value();
  const Tensor sum = ops::power_sums({&values, 1}, 2.0);
  gradient.impl()->squares = VariableImpl::Squares{*sum.data<double>(), values.version()};
}

}  // namespace

GradientSquares::GradientSquares(const ParameterList& parameters) {
  if (parameters.reducer()) return;
  hooks_.reserve(parameters.size());
  for (const NamedParameter& parameter : parameters)
    if (parameter.variable.requires_grad())
      hooks_.push_back(parameter.variable.register_accumulated_hook(&sum_squares));
}

GradientSquares::~GradientSquares() {
  for (HookHandle& hook : hooks_) hook.remove();
}

std::optional<double> gradient_squares(const Variable& parameter) {
  const Variable gradient = parameter.grad();
  if (!gradient.defined()) return std::nullopt;
  const auto& squares = gradient.impl()->squares;
  if (!squares || squares->version != gradient.value().version()) return std::nullopt;
  return squares->sum;
}

}  // namespace tessera::optim
