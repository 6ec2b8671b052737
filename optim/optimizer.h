#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/parameter_list.h"
#include "optim/optimizer_state.h"
#include "tensor/ops/training/optimizer_update.h"

/// Optimizers, learning rate schedules, clipping of gradients and loss scaling.
namespace tessera::optim {

/// Parameters that share options: `AdamW adam({{matrices, {.lr = 1e-3}}, {vectors, {.lr = 1e-3, .weight_decay
/// = 0}}})`.
template <class Options>
struct ParameterGroup {
  ParameterList parameters;  ///< each in one group only
  Options options;           ///< for example AdamWOptions
};

/// An integer or floating number, such as a learning rate: `optim::SGD sgd(parameters, 1)`.
template <class T>
concept Number = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

/// Options of one step.
struct StepOptions {
  /// 0-dim f64: the update multiplies every gradient by it as it reads the gradient, without a pass of its
  /// own. `clip_coefficient` (optim/clip.h) computes it. Undefined for 1.
  Tensor clip;
};

/// Updates parameters from their gradients; a FusedOptimizer or a PlainOptimizer computes the step, and has
/// `add_param_group`, which adds parameters to an optimizer that is in use. In mixed precision it updates the
/// f32 master and writes the rounded parameter. It works on Tensors, so nothing is recorded. Its state, one
/// arena per group and dtype in the memory category `optimizer_state`, is made at the first step.
///
/// A class of your own may override `step()` alone, as in PyTorch; what else it keeps is not in `state()`:
///
///     struct Sgd : optim::Optimizer {
///       Sgd(const ParameterList& p, double rate) : Optimizer(p), rate(rate) {}
///       void step() override {
///         NoGrad no_grad;
///         for (auto& p : parameters()) p.variable -= rate * p.variable.grad();
///       }
///       double rate;
///     };
class Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update. A parameter without a gradient is skipped: its value, state and step count stay.
  /// Throws ShapeError or DTypeError, naming the parameter, for a gradient that does not fit, and ConfigError
  /// when the parameters were sharded after the optimizer was made; then it changes nothing.
  /// @{
  virtual void step() { step(StepOptions()); }
  void step(const StepOptions& options);
  /// @}
  /// Removes all gradients (`set_to_none`), or zeroes them in place.
  void zero_grad(bool set_to_none = true) const;

  /// "AdamW".
  const std::string& name() const { return name_; }
  /// The number of groups; an index of a group counts from 0.
  int group_count() const { return static_cast<int>(rates_.size()); }
  /// The parameters of all groups, in order.
  const ParameterList& parameters() const { return parameters_; }
  /// A group's learning rate: 0-dim f64, read by each step; a write into it takes effect in the next one.
  const Tensor& lr(int group = 0) const;
  /// The rate with which a group was made; a schedule scales it.
  double base_lr(int group = 0) const;
  /// Whether all groups were made with the same rate.
  bool has_one_base_lr() const;
  /// Sets the learning rate of every group. Throws ConfigError unless it is finite and at least 0.
  void set_lr(double lr);
  /// The same for one group. Throws IndexError for one that does not exist.
  void set_lr(int group, double lr);

  /// A group's option by the name under which `state` saves it: "beta1", "momentum", ...; a flag is 0 or 1.
  /// Nothing where the optimizer has no such option. Throws IndexError for a group that does not exist.
  std::optional<double> option(int group, std::string_view name) const;
  /// Sets it for the steps that follow. Throws ConfigError, naming the option, where there is none of this
  /// name, for a value out of range, and for one that would change which state the group has (a momentum
  /// from 0, ...); then it sets nothing. Throws IndexError as `option`.
  void set_option(int group, std::string_view name, double value);

  // clang-format off
  /// Errors that say what to write.
  /// @{
  void param_groups() const = delete;           // rates: lr(group), set_lr(group, rate); parameters: parameters()
  void state_dict() const = delete;             // write state(), which is tensors and options
  void load_state_dict(auto&&) const = delete;  // write load_state(saved), of what state() returned
  /// @}
  // clang-format on

  /// The state with which a resumed run continues with the same bits. Its Tensors share memory with the
  /// optimizer's. Allocates the state when there was no step yet.
  OptimizerState state();
  /// Copies values and options (these only when `groups` is not empty). Throws CheckpointError naming the
  /// optimizer, entry or option that is missing, unexpected, duplicate or of another shape or dtype; then it
  /// loads nothing.
  void load_state(const OptimizerState& saved);

 protected:
  /// The shape of a state tensor of a parameter, from the parameter's; nothing where the parameter has no
  /// such state.
  using StateShape = std::optional<Shape> (*)(const Shape& parameter);
  /// One state tensor per parameter.
  struct StateTensor {
    const char* name;            ///< in saved state, before the parameter's: "exp_avg"
    int index;                   ///< in UpdateItem::state
    double initial = 0.0;        ///< every element before the first step
    StateShape shape = nullptr;  ///< null: the parameter's
  };

  /// Has no groups yet. `name`: in messages and saved state.
  explicit Optimizer(std::string name);
  /// One group with all parameters, for a class that overrides `step()`; it is called "Optimizer". Throws as
  /// `add_group`, and ValueError when there is no parameter.
  explicit Optimizer(const ParameterList& parameters, double lr = 1e-3);
  /// Adds a group and returns its learning rate. Throws ConfigError for a rate that is negative or not
  /// finite; for a parameter that is undefined or listed twice (by identity or by name) ValueError, for one
  /// that is not a leaf AutogradError, for one that is neither f32 nor f64 and has no such master DTypeError,
  /// for a list made before its parameters were sharded ConfigError, each naming it; then it adds nothing.
  Tensor add_group(const ParameterList& parameters, double lr);
  /// Throws ValueError when the groups hold no parameter at all, unless their lists are a rank's share.
  void require_parameters() const;

  /// The state tensors of each parameter of a group; none by default.
  virtual std::vector<StateTensor> state_tensors(int group) const;
  /// Updates the items that have a gradient, each gradient times `clip` (0-dim f64, undefined for 1). By
  /// default throws ConfigError: a class that overrides `step()` alone has no step with options.
  virtual void update(std::span<const ops::UpdateItem> items, const Tensor& clip);
  /// A group's options except the learning rate; none by default.
  virtual std::vector<NamedOption> options(int group) const;
  /// Sets what `options` returned; with `apply = false` only checks it. Throws CheckpointError for an
  /// unknown or missing option, ConfigError for a value out of range.
  virtual void load_options(int group, std::span<const NamedOption> options, bool apply);
  /// State of the optimizer as a whole, in the order in which it is saved; loading copies into these Tensors.
  virtual std::vector<NamedTensor> common_state() { return {}; }
  /// Whether the step counts lie in the host's memory, for a rule that computes with them there; otherwise on
  /// the parameters' device.
  virtual bool counts_on_host() const { return false; }

 private:
  std::vector<NamedParameter> checked(const ParameterList& list) const;
  void make_state();
  /// By kind and item: state with its padding, which is not zeroed yet on the CPU.
  using NewStates = std::vector<std::vector<Tensor>>;
  void make_arena(int group, DType dtype, NewStates& states);
  void collect_gradients();
  void load_group(int group, std::span<const NamedOption> saved, bool apply);
  std::vector<int> state_indices(int group) const;

  std::string name_;
  ParameterList parameters_;
  std::vector<ops::UpdateItem> items_;  // one per parameter, in the order of parameters_
  std::vector<Tensor> rates_;           // one per group
  std::vector<double> base_rates_;      // as the groups were made
  size_t with_state_ = 0;               // the number of items, from the first, whose state is made
};

}  // namespace tessera::optim
