#pragma once

#include <string>
#include <utility>
#include <vector>

#include "autograd/parameter_list.h"
#include "optim/optimizer_state.h"
#include "tensor/ops/optimizer_update.h"

namespace tessera::optim {

/// Parameters that share options: `AdamW adam({{matrices, {.lr = 1e-3}}, {vectors, {.lr = 1e-3, .weight_decay
/// = 0}}})`.
template <class Options>
struct ParameterGroup {
  ParameterList parameters;
  Options options;
};

struct StepOptions {
  /// 0-dim f64: every gradient is multiplied by it as the update reads it, which spares the pass of scaling
  /// in place. `clip_coefficient` (optim/clip.h) makes one. Undefined for 1.
  Tensor clip;
};

/// Changes parameters by their gradients: all groups in one fused pass (tensor/ops/optimizer_update.h). In
/// mixed precision it changes the f32 master and writes the rounded parameter in the same pass. Works
/// on the numbers alone, so nothing it does is recorded. Its state, one arena per group and dtype in the
/// memory category `optimizer_state`, is made at the first step; later steps allocate nothing.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update. A parameter without a gradient is passed over: its numbers, state and step count stay.
  /// Throws ShapeError or DTypeError, naming the parameter, for a gradient that does not fit, and ConfigError
  /// when the parameters were sharded after the optimizer was made; nothing is changed then.
  void step(const StepOptions& options = {});
  /// Forgets all gradients, or zeroes them in place.
  void zero_grad(bool set_to_none = true) const;

  /// "AdamW".
  const std::string& name() const { return name_; }
  int group_count() const { return static_cast<int>(rates_.size()); }
  /// Of all groups, in order.
  const ParameterList& parameters() const { return parameters_; }
  /// A group's learning rate: 0-dim f64, read by each step; what writes into it is seen by the next one.
  const Tensor& lr(int group = 0) const;
  /// The rate that a group was made with: what a schedule scales.
  double base_lr(int group = 0) const;
  /// Whether all groups were made with the same one.
  bool has_one_base_lr() const;
  /// Sets the learning rate of every group. Throws ConfigError unless it is finite and at least 0.
  void set_lr(double lr);
  void set_lr(int group, double lr);

  /// What must be saved to go on as if never stopped; its Tensors are the live ones. Makes the state when
  /// there was no step yet.
  OptimizerState state();
  /// Takes numbers and options (these only when `groups` is not empty). Throws CheckpointError naming the
  /// optimizer, entry or option that is missing, unexpected, doubled or of another shape or dtype; nothing is
  /// loaded then.
  void load_state(const OptimizerState& saved);

 protected:
  /// One tensor that the update keeps per parameter: its name, its place in UpdateItem::state, its first
  /// value.
  struct Slot {
    const char* name;
    int index;
    double initial = 0.0;
  };

  explicit Optimizer(std::string name) : name_(std::move(name)) {}
  /// Adds a group and returns its learning rate. Throws ConfigError for a senseless rate; for a parameter
  /// that is undefined or listed twice (by identity or by name) ValueError, for one that is not a leaf
  /// AutogradError, for one that is neither f32 nor f64 and has no such master DTypeError, for a list made
  /// before its parameters were sharded ConfigError, each naming it.
  Tensor add_group(const ParameterList& parameters, double lr);
  /// Throws ValueError when the groups hold no parameter at all.
  void require_parameters() const;

  /// What a group keeps per parameter.
  virtual std::vector<Slot> slots(int group) const = 0;
  /// Runs the fused update.
  virtual void update(std::span<const ops::UpdateItem> items, const Tensor& clip) = 0;
  /// A group's options but the learning rate.
  virtual std::vector<NamedNumber> options(int group) const = 0;
  /// Takes what `options` gave, or, for `keep = false`, only looks at it. Throws CheckpointError for an
  /// unknown or missing option, ConfigError for a value out of range.
  virtual void load_options(int group, std::span<const NamedNumber> options, bool keep) = 0;

 private:
  void make_state();
  void make_arena(int group, DType dtype);
  void collect_gradients();
  void load_group(int group, std::span<const NamedNumber> saved, bool keep);

  std::string name_;
  ParameterList parameters_;
  std::vector<ops::UpdateItem> items_;  // one per parameter, in the order of parameters_
  std::vector<Tensor> rates_;           // one per group
  std::vector<double> base_rates_;      // as the groups were made
  Tensor steps_;                        // i64, one per parameter; undefined before the state is made
};

}  // namespace tessera::optim
