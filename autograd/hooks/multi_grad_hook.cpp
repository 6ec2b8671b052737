#include "autograd/hooks/multi_grad_hook.h"

#include <algorithm>

#include "autograd/debug/backward_reports.h"
#include "autograd/engine.h"

namespace tessera::autograd {
namespace {

/// A hook of several Variables, which the hooks of each of them share. Threads may run backwards at the same
/// time.
class MultiGrad : public std::enable_shared_from_this<MultiGrad> {
 public:
  MultiGrad(MultiGradHook hook, MultiGradMode mode) : hook_(std::move(hook)), mode_(mode) {}

  /// Registers a hook of `x`; its gradient is entry `i`.
  void observe(const Variable& x, size_t i) {
    handles_.push_back(x.register_hook([self = shared_from_this(), i](const Variable& gradient) -> Variable {
      self->receive(i, gradient);
      return {};
    }));
    hooks_.push_back(gradient_edge(x).node->hooks->back());
  }

  void remove() {
    for (HookHandle& handle : handles_) handle.remove();
  }

 private:
  /// The gradients of one backward.
  struct Arrived {
    uint64_t backward;
    size_t missing;
    std::vector<Variable> gradients;
  };

  void receive(size_t i, const Variable& gradient) {
    std::unique_lock lock(mutex_);
    const auto of_this = [id = current_backward()](const Arrived& arrived) { return arrived.backward == id; };
    auto found = std::find_if(arrived_.begin(), arrived_.end(), of_this);
    if (found == arrived_.end()) {
      begin();
      found = arrived_.end() - 1;
    }
    if (found->missing == 0) return;
    found->gradients[i] = gradient;
    if (mode_ == MultiGradMode::all && --found->missing > 0) return;
    found->missing = 0;
    const std::vector<Variable> gradients = std::exchange(found->gradients, {});
    lock.unlock();
    hook_(gradients);
  }

  /// Adds an entry for the running backward, which `at_backward_end` removes.
  void begin() {
    const uint64_t id = current_backward();
    arrived_.push_back({id, hooks_to_call(), std::vector<Variable>(hooks_.size())});
    at_backward_end([self = shared_from_this(), id] { self->end(id); });
  }

  void end(uint64_t backward) {
    std::unique_lock lock(mutex_);
    const auto found = std::find_if(arrived_.begin(), arrived_.end(),
                                    [&](const Arrived& arrived) { return arrived.backward == backward; });
    if (found == arrived_.end()) return;
    const Arrived last = std::move(*found);
    arrived_.erase(found);
    lock.unlock();
    if (last.missing > 0) hook_(last.gradients);
  }

  /// How many of the hooks the running backward will call, as far as the graph shows.
  size_t hooks_to_call() const {
    size_t count = 0;
    Engine::running()->visit_needed([&](const Node& node) {
      if (!node.hooks) return;
      for (const std::shared_ptr<Node::Hook>& hook : *node.hooks)
        count += std::any_of(hooks_.begin(), hooks_.end(),
                             [&](const std::weak_ptr<Node::Hook>& own) { return own.lock() == hook; });
    });
    return count;
  }

  MultiGradHook hook_;
  MultiGradMode mode_;
  std::vector<HookHandle> handles_;
  std::vector<std::weak_ptr<Node::Hook>> hooks_;  // a hook holds this object
  std::mutex mutex_;
  std::vector<Arrived> arrived_;  // of the backwards that run now
};

}  // namespace

HookHandle register_multi_grad_hook(const std::vector<Variable>& variables, MultiGradHook hook,
                                    MultiGradMode mode) {
  require<ValueError>(!variables.empty(),
                      "register_multi_grad_hook: expected at least one Variable, got none");
  require<ValueError>(hook != nullptr, "register_multi_grad_hook: expected a function, got an empty one");
  for (size_t i = 0; i < variables.size(); ++i)
    require<AutogradError>(variables[i].requires_grad(), "register_multi_grad_hook: Variable ", i, ", ",
                           variables[i], ", requires no gradient");
  const auto shared = std::make_shared<MultiGrad>(std::move(hook), mode);
  for (size_t i = 0; i < variables.size(); ++i) shared->observe(variables[i], i);
  return HookHandle([weak = std::weak_ptr<MultiGrad>(shared)] {
    if (const std::shared_ptr<MultiGrad> found = weak.lock()) found->remove();
  });
}

}  // namespace tessera::autograd
