#pragma once

#include <functional>
#include <vector>

#include "autograd/variable.h"

namespace tessera::autograd {

/// Receives one entry for each Variable of `register_multi_grad_hook`, in their order: its gradient, or an
/// undefined Variable.
using MultiGradHook = std::function<void(const std::vector<Variable>& gradients)>;

/// When a hook of several Variables is called.
enum class MultiGradMode : uint8_t {
  all,  ///< in each backward, when the last of the gradients that it computes has arrived
  any   ///< in each backward, when the first one has: the others are undefined
};

/// Calls `hook` once for each backward that reaches one of `variables`, as torch.autograd.graph's function of
/// this name does. In mode `all` a Variable that a backward does not reach has an undefined gradient. Where a
/// rule gives a reached one no gradient at all, the hook is called at the end of the outermost backward. The
/// gradients are the summed ones, as `Variable::register_hook` gets them, and cannot be replaced. `remove` of
/// the handle removes the hook. Throws AutogradError for a Variable that requires no gradient, ValueError for
/// none and for an empty hook.
///
///     autograd::register_multi_grad_hook({w1, w2}, [&](const std::vector<Variable>& gradients) { ... });
HookHandle register_multi_grad_hook(const std::vector<Variable>& variables, MultiGradHook hook,
                                    MultiGradMode mode = MultiGradMode::all);

}  // namespace tessera::autograd
