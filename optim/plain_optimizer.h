#pragma once

#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "optim/optimizer.h"
#include "optim/option_table.h"
#include "tensor/function_ref.h"
#include "tensor/ops/elementwise/unary.h"

namespace tessera::optim {

/// A parameter in a step of a PlainOptimizer.
struct PlainParameter {
  /// f32 or f64, contiguous; updated in place. Of a sharded module it is this rank's shard.
  Tensor value;
  /// Of the value's shape and dtype, clipped. Only read: it may share memory with the stored gradient.
  Tensor gradient;
  /// By the index of `state_tensors`, updated in place; undefined where the parameter has no such state.
  std::array<Tensor, elementwise::max_update_states> state;
  /// The number of this update of the parameter, from 1.
  int64_t step;
  /// The learning rate of the parameter's group in this step.
  double lr;
  /// The parameter's number in the optimizer.
  size_t index = 0;
};

/// Counts the step of each item that has a gradient, calls step(parameter, group) for one after the other,
/// then `finish`, and writes the rounded copies. Throws ShapeError, naming the parameter, for a gradient that
/// does not fit; then it changes nothing.
void for_each_parameter(const Optimizer& optimizer, std::span<const ops::UpdateItem> items,
                        const Tensor& clip, FunctionRef<void(PlainParameter&, int group)> step,
                        FunctionRef<void()> finish);

/// Throws, naming optimizer and parameter, for parameters that an optimizer cannot update.
using ParameterCheck = void (*)(const std::string& optimizer, const ParameterList& parameters);

/// An Optimizer written in tensor operations (tensor/ops), one parameter at a time. It makes a pass over
/// memory for every operation, so it is slower than a FusedOptimizer of the same rule. `Options` has a member
/// `lr`, the first learning rate; where it has a `bool maximize` that is true, `step_parameter` gets the
/// negative gradient.
template <class OptionsType>
class PlainOptimizer : public Optimizer {
 public:
  using Options = OptionsType;  ///< those of a group

  /// Adds parameters with options of their own; their state begins at their first step. Throws as the
  /// constructor; then it adds nothing.
  void add_param_group(const ParameterGroup<Options>& group) {
    table_.require_in_range(name(), group.options);
    if (check_) check_(name(), group.parameters);
    add_group(group.parameters, group.options.lr);
    options_.push_back(group.options);
  }

 protected:
  /// `table`: the options that are saved, without `lr`. `check` is called for the parameters of each group.
  PlainOptimizer(std::string name, const std::vector<ParameterGroup<Options>>& groups,
                 OptionTable<Options> table, ParameterCheck check = nullptr)
      : Optimizer(std::move(name)), table_(std::move(table)), check_(check) {
    for (const ParameterGroup<Options>& group : groups) add_param_group(group);
    require_parameters();
  }

  /// Updates one parameter and its state.
  virtual void step_parameter(const PlainParameter& p, const Options& options) const = 0;
  /// Called after `step_parameter` of all parameters of a step, on all ranks: for rules that need sums over
  /// the shards of a parameter before they write it.
  virtual void finish_step() const {}

  /// The options of a group, for `state_tensors` that depend on them.
  const Options& group_options(int group) const { return options_[static_cast<size_t>(group)]; }

 private:
  bool counts_on_host() const final { return true; }
  void update(std::span<const ops::UpdateItem> items, const Tensor& clip) override {
    for_each_parameter(
        *this, items, clip,
        [this](PlainParameter& parameter, int group) {
          const Options& options = options_[static_cast<size_t>(group)];
          if constexpr (requires { options.maximize; })
            if (options.maximize) parameter.gradient = ops::neg(parameter.gradient);
          step_parameter(parameter, options);
        },
        [this] { finish_step(); });
  }
  std::vector<NamedOption> options(int group) const override {
    return table_.values(options_[static_cast<size_t>(group)]);
  }
  void load_options(int group, std::span<const NamedOption> saved, bool apply) override {
    const Options loaded = table_.loaded(name(), group, options_[static_cast<size_t>(group)], saved);
    if (apply) options_[static_cast<size_t>(group)] = loaded;
  }

  std::vector<Options> options_;
  OptionTable<Options> table_;
  ParameterCheck check_;
};

}  // namespace tessera::optim
