#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <type_traits>

#include "optim/optimizer.h"
#include "optim/option_table.h"
#include "tensor/function_ref.h"

namespace tessera::optim {

/// How LBFGS finds the length of a step.
enum class LineSearch {
  none,         ///< the learning rate; in the very first step at most 1 / sum |g| of it
  strong_wolfe  ///< a search from there for a length with the strong Wolfe conditions
};

/// Options of LBFGS, with PyTorch's defaults.
struct LBFGSOptions {
  double lr = 1.0;                 ///< the first learning rate
  int64_t max_iter = 20;           ///< iterations in one call of `step`
  int64_t max_eval = 0;            ///< evaluations of the closure in it; 0: max_iter * 5 / 4
  double tolerance_grad = 1e-7;    ///< a call ends when no element of the gradient is larger
  double tolerance_change = 1e-9;  ///< or when loss or parameters change by less
  int64_t history_size = 100;  ///< pairs of changes kept: 2 history_size values for each parameter element
  LineSearch line_search_fn = LineSearch::none;  ///< how the step's length is found
  bool maximize = false;                         ///< climb instead of descending
};

/// L-BFGS (Nocedal 1980; Liu and Nocedal 1989), as PyTorch defines it: a quasi-Newton step from the changes
/// of the gradient in the last steps, for the minimum of a function without noise. `step` evaluates loss and
/// gradients several times through a closure:
///
///     lbfgs.step([&] { lbfgs.zero_grad(); Variable loss = f(); loss.backward(); return loss; });
///
/// State of all parameters together, flat: d, prev_flat_grad, old_dirs, old_stps, ro, H_diag, t, prev_loss,
/// n_iter, func_evals; `history`, the number of pairs so far. One group. A missing gradient is zero. Throws
/// ConfigError for options out of range and for parameters that are shared with other ranks (the line search
/// would compare losses of one rank), DTypeError for several dtypes, and as `Optimizer` does.
class LBFGS : public Optimizer {
 public:
  using Options = LBFGSOptions;  ///< those of the optimizer

  /// All parameters in one group.
  /// @{
  explicit LBFGS(const ParameterList& parameters, const Options& options = {});
  LBFGS(const ParameterList& parameters, Number auto lr)
      : LBFGS(parameters, Options{.lr = static_cast<double>(lr)}) {}
  /// @}

  /// Throws ConfigError: a step needs a closure.
  void step() override { Optimizer::step(); }
  /// Up to max_iter iterations. `closure` clears the gradients, computes the loss and its gradients and
  /// returns the loss, as a Variable or a double. Returns the loss before the first iteration.
  template <std::invocable Closure>
  double step(Closure&& closure) {
    return minimize([&closure]() -> double {
      if constexpr (std::is_convertible_v<std::invoke_result_t<Closure&>, double>)
        return std::invoke(closure);
      else
        return std::invoke(closure).value().item();
    });
  }

 protected:
  std::vector<StateTensor> state_tensors(int) const override { return {}; }
  /// Throws ConfigError: a step needs a closure.
  void update(std::span<const ops::UpdateItem> items, const Tensor& clip) override;
  std::vector<NamedOption> options(int) const override { return table_.values(options_); }
  void load_options(int group, std::span<const NamedOption> saved, bool apply) override;
  std::vector<NamedTensor> common_state() override;

 private:
  struct Point {
    double loss;
    Tensor gradient;
  };
  double minimize(FunctionRef<double()> closure);
  bool iterate(FunctionRef<double()> closure, Point& now, bool is_last, int64_t& evaluations);
  Point search(FunctionRef<double()> closure, const Point& from, double slope, int64_t& evaluations);
  void make_memory();
  void remember(const Tensor& gradient);
  void set_direction(const Tensor& gradient);
  Point evaluate(FunctionRef<double()> closure) const;
  void move(double t) const;
  int64_t max_evaluations() const;
  int64_t& n_iter() const { return *n_iter_.data<int64_t>(); }
  double& t() const { return *t_.data<double>(); }

  Options options_;
  OptionTable<Options> table_;
  Tensor direction_, gradient_;          // d, prev_flat_grad: flat
  Tensor gradient_changes_, changes_;    // old_dirs, old_stps: (history_size, elements)
  Tensor inverse_products_;              // ro: (history_size) f64
  Tensor inverse_curvature_, t_, loss_;  // H_diag, t, prev_loss: 0-dim f64
  Tensor n_iter_, evaluations_, pairs_;  // n_iter, func_evals, history: 0-dim i64
};

}  // namespace tessera::optim
