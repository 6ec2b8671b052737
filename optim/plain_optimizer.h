#pragma once

#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "optim/optimizer.h"
#include "optim/option_table.h"
#include "tensor/function_ref.h"

namespace tessera::optim {

/// A parameter in a step of a PlainOptimizer.
struct PlainParameter {
  /// f32 or f64, contiguous; updated in place. Of a sharded module it is this rank's shard.
  Tensor value;
  /// Of the value's shape and dtype, clipped. Only read: it may share memory with the stored gradient.
  Tensor gradient;
  /// In the order of `slots`, updated in place.
  std::array<Tensor, elementwise::max_update_states> state;
  /// The number of this update of the parameter, from 1.
  int64_t step;
  /// The learning rate of the parameter's group in this step.
  double lr;
};

/// Counts the step of each item that has a gradient, calls step(parameter, group), and writes the rounded
/// copies. Throws ShapeError, naming the parameter, for a gradient that does not fit; then it changes
/// nothing.
void for_each_parameter(const Optimizer& optimizer, std::span<const ops::UpdateItem> items,
                        const Tensor& clip, FunctionRef<void(const PlainParameter&, int group)> step);

/// An Optimizer written in tensor operations (tensor/ops), one parameter at a time. It makes a pass over
/// memory for every operation, so it is slower than a FusedOptimizer of the same rule. `Options` has a member
/// `lr`, the first learning rate.
template <class Options>
class PlainOptimizer : public Optimizer {
 protected:
  /// `table`: the options that are saved, without `lr`.
  PlainOptimizer(std::string name, const std::vector<ParameterGroup<Options>>& groups,
                 OptionTable<Options> table)
      : Optimizer(std::move(name)), table_(std::move(table)) {
    for (const auto& [parameters, options] : groups) {
      table_.require_in_range(this->name(), options);
      add_group(parameters, options.lr);
      options_.push_back(options);
    }
    require_parameters();
  }

  /// Updates one parameter and its state.
  virtual void step_parameter(const PlainParameter& p, const Options& options) const = 0;

  /// The options of a group, for `slots` that depend on them.
  const Options& group_options(int group) const { return options_[group]; }

 private:
  void update(std::span<const ops::UpdateItem> items, const Tensor& clip) override {
    for_each_parameter(*this, items, clip, [this](const PlainParameter& parameter, int group) {
      step_parameter(parameter, options_[group]);
    });
  }
  std::vector<NamedOption> options(int group) const override { return table_.values(options_[group]); }
  void load_options(int group, std::span<const NamedOption> saved, bool apply) override {
    const Options loaded = table_.loaded(name(), group, options_[group], saved);
    if (apply) options_[group] = loaded;
  }

  std::vector<Options> options_;
  OptionTable<Options> table_;
};

}  // namespace tessera::optim
