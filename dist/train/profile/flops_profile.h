#pragma once  // not in tessera.h

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nn/module.h"
#include "tensor/profile/profiler.h"

/// The cost of a step by module: parameters, FLOPs, bytes and time, as a tree.
namespace tessera::training {

/// The cost of forward, or of backward.
struct PassCost {
  int64_t flops = 0;        ///< of matrix products and attention; a multiply-add is two
  int64_t bytes = 0;        ///< the least that kernels move: each operand once
  int64_t nanoseconds = 0;  ///< in the thread that ran the step
  /// Adds each field.
  PassCost& operator+=(const PassCost& other);
};

/// A module and those below it. `own` fields are without the children's; the others are with them, so that a
/// node's value is its own plus the sum of its children's.
struct ProfileNode {
  std::string name;                        ///< full name; "(model)" for a root
  std::string kind;                        ///< `Module::kind()`
  std::string options = "";                ///< `Module::describe_options()`
  int depth = 0;                           ///< levels below the profiled module
  int64_t own_parameters = 0;              ///< values; those of tied weights at their first module
  int64_t parameters = 0;                  ///< the same from here down
  int64_t calls = 0;                       ///< in forward
  PassCost own_forward = {};               ///< its own in forward, over all calls
  PassCost own_backward = {};              ///< its own in backward, recomputed forward included
  PassCost forward = {};                   ///< from here down in forward
  PassCost backward = {};                  ///< from here down in backward
  std::vector<ProfileNode> children = {};  ///< in order of declaration

  /// Forward and backward, from here down.
  /// @{
  int64_t flops() const { return forward.flops + backward.flops; }
  int64_t bytes() const { return forward.bytes + backward.bytes; }
  int64_t nanoseconds() const { return forward.nanoseconds + backward.nanoseconds; }
  /// @}
  /// Of the module alone, in forward and backward.
  /// @{
  int64_t own_flops() const { return own_forward.flops + own_backward.flops; }
  int64_t own_nanoseconds() const { return own_forward.nanoseconds + own_backward.nanoseconds; }
  /// @}
};

/// The time of one phase of a step.
struct PhaseTime {
  std::string name;         ///< "forward", "backward", "optimizer", ...
  int64_t nanoseconds = 0;  ///< without spans inside another phase
};

/// The profile of one step. A function outside every module (a loss) counts for the root, and so does what
/// the backward engine itself does.
struct FlopsProfile {
  ProfileNode root;                    ///< the profiled module
  int64_t step = 0;                    ///< its number, as given
  int64_t nanoseconds = 0;             ///< of the whole step, from begin to end
  std::vector<PhaseTime> phases = {};  ///< in the order in which they first began
  bool is_plan = false;                ///< on meta: FLOPs and parameters alone, without bytes and times
  int64_t samples = 0;                 ///< of the step; 0: not known
  double machine_flops = 0;            ///< FLOP/s of the machine's products, to compare with; 0: not known

  /// Of a phase; 0 where it was not recorded.
  int64_t phase_nanoseconds(const std::string& name) const;
};

/// Runs `step` once with a Profiler open, and reports what it cost in each module from `module` down: a
/// forward, or forward, backward and the optimizer's step. A module that is called several times, also by
/// others than its parent, counts once in the tree, with the sum of its calls.
///
/// On meta it is a plan: FLOPs without bytes and times. On a CUDA device times are those of starting kernels.
/// Where ranks are threads, one rank profiles, its own spans alone. Modules are found by their full names: a
/// second model of the same names in the step would count too. Throws ValueError while another Profiler is
/// open, and when the step calls no module of the tree.
FlopsProfile profile_modules(nn::Module& module, const std::function<void()>& step, int64_t number = 0);

/// The same from what `profiler` recorded on rank `rank`, without running anything.
FlopsProfile profile_from(const nn::Module& module, const Profiler& profiler, int rank = 0);

/// The nodes by their own time, the longest first; of a plan by their own FLOPs. Equal ones stay in order of
/// declaration. They point into `profile`.
std::vector<const ProfileNode*> slowest_first(const FlopsProfile& profile);

}  // namespace tessera::training
