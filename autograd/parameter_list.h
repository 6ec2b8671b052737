#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/variable.h"

namespace tessera {

/// The shard of a parameter that a rank holds: elements first, first + 1, ... of its row-major order.
struct ShardInfo {
  Shape shape;        ///< of the full parameter
  int64_t first = 0;  ///< row-major index of the shard's first element
};

/// A parameter and its full name in the model ("blocks.3.mlp.fc.weight").
struct NamedParameter {
  std::string name;   ///< with the names of the modules that hold it, joined by dots
  Variable variable;  ///< the parameter, or this rank's shard of it
  /// In mixed precision the unrounded values of `variable`; undefined elsewhere.
  Tensor master = {};
  /// Of a sharded parameter, whose `variable` is this rank's shard, one-dimensional and perhaps without
  /// elements; nothing for a full parameter.
  std::optional<ShardInfo> shard = {};

  /// The gradient of `variable`, undefined where there is none; and whether it receives one.
  /// @{
  Variable grad() const { return variable.grad(); }
  bool requires_grad() const { return variable.requires_grad(); }
  const Variable& requires_grad_(bool requires_grad = true) const {
    return variable.requires_grad_(requires_grad);
  }
  /// @}

  /// Of the full parameter.
  const Shape& full_shape() const { return shard ? shard->shape : variable.shape(); }
  /// The values that an optimizer changes and a checkpoint holds.
  const Tensor& values() const { return master.defined() ? master : variable.value(); }
};

class ParameterList;

/// Reductions over the gradients of a list on all ranks. Every rank of the list makes the same calls in the
/// same order.
class ParameterReducer {
 public:
  virtual ~ParameterReducer() = default;
  /// The sum of |g|^p over the gradients of all ranks' shards of `list`, in f64, in an order that depends
  /// only on the mesh; a missing gradient counts 0. For an infinite p the largest |g|. NaN where any gradient
  /// has one.
  virtual double power_sum(const ParameterList& list, double p) = 0;
  /// Asks for the sums of squares of the gradients of `list` as soon as each gradient is complete, when it is
  /// still in a cache: `power_sum` with p = 2 then does not read it again. The last of `backwards` backwards
  /// completes a gradient; 0 ends it. By default nothing is summed early.
  virtual void take_squares(const ParameterList& list, int64_t backwards) {
    (void)list;
    (void)backwards;
  }
  /// The sums over all shards of each of `values`, in place: of values that each rank computed from its
  /// shards of some parameters, in an order that depends only on the mesh. Throws ConfigError for a reducer
  /// that cannot.
  virtual void sum_over_shards(std::span<double> values);
  /// The largest of one value per rank (of a flag: whether any rank has it set).
  virtual double largest(double value) = 0;
  /// Called when the gradients of `list` are cleared: clears also what this rank has not reduced over the
  /// others yet.
  virtual void clear(const ParameterList& list) { (void)list; }
  /// This rank's number in messages.
  virtual int rank() const { return 0; }
  /// Whether all ranks list the same parameters; those of stages of a pipeline differ.
  virtual bool lists_are_equal() const { return true; }
};

/// The parameters that a module, or this rank's shard of one, trains; in module order. Each Variable once, by
/// identity. Optimizers and clipping take a list, so that a training loop is the same on one rank and on
/// many.
class ParameterList {
 public:
  ParameterList() = default;
  /// The given parameters, without a reducer.
  explicit ParameterList(std::vector<NamedParameter> parameters) : list_(std::move(parameters)) {}
  /// Variables without a module, which get the names "0", "1", ...: `optim::Adam adam({w, b}, 1e-3)`.
  /// @{
  ParameterList(std::initializer_list<Variable> parameters)
      : ParameterList(std::vector<Variable>(parameters)) {}
  ParameterList(const std::vector<Variable>& parameters) {
    for (const Variable& parameter : parameters) list_.push_back({std::to_string(list_.size()), parameter});
  }
  /// @}

  /// The number of parameters.
  size_t size() const { return list_.size(); }
  /// Whether there are no parameters.
  bool empty() const { return list_.empty(); }
  /// Parameter `i`; the index is not checked.
  const NamedParameter& operator[](size_t i) const { return list_[i]; }
  /// The parameters in order, as `NamedParameter`.
  /// @{
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }
  /// @}
  /// Appends a parameter. It is not checked whether the list has it already.
  void push_back(NamedParameter parameter) { list_.push_back(std::move(parameter)); }

  /// The parameters for which `predicate(parameter)` holds, with the same reducer.
  template <class Predicate>
  ParameterList where(Predicate predicate) const {
    ParameterList chosen;
    chosen.reducer_ = reducer_;
    for (const NamedParameter& parameter : list_)
      if (predicate(parameter)) chosen.list_.push_back(parameter);
    return chosen;
  }

  /// The same list with `prefix` and a dot before every name: for one optimizer over several models, in which
  /// names may be equal.
  ParameterList prefixed(const std::string& prefix) const {
    ParameterList renamed = *this;
    for (NamedParameter& parameter : renamed.list_) parameter.name = prefix + "." + parameter.name;
    return renamed;
  }

  /// Set by sharding; null where this rank holds all gradients.
  const std::shared_ptr<ParameterReducer>& reducer() const { return reducer_; }
  /// Sets the reducer, or none: null.
  void set_reducer(std::shared_ptr<ParameterReducer> reducer) { reducer_ = std::move(reducer); }

  /// Elements of all parameters together.
  int64_t numel() const {
    int64_t total = 0;
    for (const NamedParameter& parameter : list_) total += parameter.variable.numel();
    return total;
  }
  /// Clears all gradients (`set_to_none`), or zeroes them in place.
  void zero_grad(bool set_to_none = true) const {
    if (reducer_) reducer_->clear(*this);
    for (const NamedParameter& parameter : list_) {
      const Variable gradient = parameter.variable.grad();
      if (set_to_none)
        parameter.variable.set_grad({});
      else if (gradient.defined())
        gradient.value().zero();
    }
  }

 private:
  std::vector<NamedParameter> list_;
  std::shared_ptr<ParameterReducer> reducer_;
};

}  // namespace tessera
