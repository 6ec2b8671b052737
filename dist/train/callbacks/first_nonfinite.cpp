#include "dist/train/callbacks/first_nonfinite.h"

#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "dist/train/trainer/trainer.h"
#include "optim/first_nonfinite.h"
#include "tensor/error.h"
#include "tensor/ops/training/multi_tensor.h"

namespace tessera::training {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The index of the first tensor that is not finite, or -1.
int64_t first_nonfinite(std::span<const Tensor> tensors) {
  const Tensor largest = ops::power_sums(tensors, infinity);
  for (int64_t i = 0; i < largest.numel(); ++i)
    if (!std::isfinite(largest.data<double>()[i])) return i;
  return -1;
}

bool is_finite(const nn::CallVariables& variables) {
  std::vector<Tensor> tensors;
  for (const Variable& variable : variables)
    if (variable.defined() && is_floating(variable.dtype()) && !variable.device().is_meta())
      tensors.push_back(variable.value());
  return first_nonfinite(tensors) < 0;
}

}  // namespace

FirstNonFinite::~FirstNonFinite() {
  remove_hooks();
}

void FirstNonFinite::on_train_start(Trainer& trainer, Task& task) {
  found_.clear();
  step_ = trainer.global_step() + 1;
  checked_step_ = trainer.global_step();
  if (options_.outputs)
    for (nn::Module& module : task.module().modules())
      hooks_.push_back(module.register_forward_hook(
          [this](nn::Module& called, const nn::CallVariables& inputs, const nn::CallVariables& outputs) {
            check_outputs(called, inputs, outputs);
          }));
  if (options_.parameters) check_parameters(trainer);
}

void FirstNonFinite::on_train_batch_end(Trainer& trainer, Task&, const data::Batch&, int64_t) {
  step_ = trainer.global_step() + 1;
  if (!options_.parameters || !trainer.is_at_step_end() || checked_step_ == trainer.global_step()) return;
  checked_step_ = trainer.global_step();
  check_parameters(trainer);
}

void FirstNonFinite::on_train_end(Trainer&, Task&) {
  remove_hooks();
}

void FirstNonFinite::on_exception(Trainer&, Task&, const std::exception&) {
  remove_hooks();
}

void FirstNonFinite::check_outputs(const nn::Module& module, const nn::CallVariables& inputs,
                                   const nn::CallVariables& outputs) {
  if (!module.is_training() || !found_.empty() || is_finite(outputs)) return;
  const std::string name = module.full_name().empty() ? "(model)" : module.full_name();
  report(text("step ", step_, ": the output of '", name, "' is not finite, and ",
              is_finite(inputs) ? "its inputs are finite" : "neither are its inputs"));
}

void FirstNonFinite::check_parameters(Trainer& trainer) {
  const ParameterList& parameters = trainer.engine().optimizer().parameters();
  std::vector<Tensor> values;
  for (const NamedParameter& parameter : parameters) values.push_back(parameter.values());
  const std::optional<optim::NonFiniteGradient> fault =
      optim::first_nonfinite_gradient(parameters, first_nonfinite(values));
  if (!fault || !found_.empty()) return;
  const std::string when =
      checked_step_ == 0 ? std::string("before the first step") : text("after step ", checked_step_);
  report(text(when, ": the parameter ", optim::to_string(*fault), " is not finite"));
}

void FirstNonFinite::report(std::string found) {
  found_ = std::move(found);
  if (options_.throws) throw NonFiniteError(text("FirstNonFinite: ", found_));
}

void FirstNonFinite::remove_hooks() {
  for (HookHandle& hook : hooks_) hook.remove();
  hooks_.clear();
}

}  // namespace tessera::training
