#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "tensor/tensor.h"

namespace tessera {

/// Produces a saved value that is not held: computes it again, reads it from disk, decompresses it. Several
/// nodes may share one.
class ValueSource {
 public:
  virtual ~ValueSource() = default;
  /// The value, in the shape and dtype that it had. Called at every read.
  virtual Tensor produce() = 0;
  /// A node no longer needs the value.
  virtual void release() {}
  /// The node's rule has run and may run again: what `produce` made need not be kept until then.
  virtual void drop_produced() {}
};

/// Decides what is held of `value`, which the operation `op` is about to save: returns its source, or null
/// for the value itself. Not called for parameters. A policy that changes the value in place is an
/// AutogradError: the value has other readers.
using SavingPolicy = std::function<std::shared_ptr<ValueSource>(const char* op, const Tensor& value)>;

class FirstRun;
class SavingPolicyScope;

namespace detail {
inline constinit thread_local const SavingPolicyScope* innermost_saving_policy = nullptr;
}

/// While it lives, `policy` decides about the values that this thread saves. Of nested scopes only the
/// innermost decides.
class SavingPolicyScope {
 public:
  /// With an empty `policy` (`nullptr`) values are held, as outside of scopes. `segment`: of a checkpointed
  /// segment that runs in this scope (autograd/recompute/first_run.h), and must outlive it.
  explicit SavingPolicyScope(SavingPolicy policy, FirstRun* segment = nullptr)
      : policy_(std::move(policy)),
        segment_(segment),
        outer_(std::exchange(detail::innermost_saving_policy, this)) {}
  ~SavingPolicyScope() { detail::innermost_saving_policy = outer_; }
  SavingPolicyScope(const SavingPolicyScope&) = delete;
  SavingPolicyScope& operator=(const SavingPolicyScope&) = delete;

  /// This thread's innermost scope; null for none.
  static const SavingPolicyScope* innermost() { return detail::innermost_saving_policy; }
  /// May be empty.
  const SavingPolicy& policy() const { return policy_; }
  /// What the first run of the scope's segment stored; null where the scope is not a segment's.
  FirstRun* segment() const { return segment_; }
  /// The scope in which this one was made; null for none.
  const SavingPolicyScope* outer() const { return outer_; }

 private:
  SavingPolicy policy_;
  FirstRun* segment_;
  const SavingPolicyScope* outer_;
};

/// The policy that decides about this thread's saved values now; null where they are held.
inline const SavingPolicy* current_saving_policy() {
  const SavingPolicyScope* const scope = SavingPolicyScope::innermost();
  return scope && scope->policy() ? &scope->policy() : nullptr;
}

}  // namespace tessera
