#pragma once  // internal

#include <string>
#include <unordered_map>
#include <vector>

#include "autograd/graph/saving_policy.h"
#include "tensor/function_ref.h"
#include "tensor/tensor.h"

namespace tessera {

/// What the first run of a checkpointed segment stores, so that its reruns find the same: the results of the
/// operations that the segment keeps; states that it reads beside its inputs and that may change before
/// backward, for example whether a module is in training; the storages of parameters that an owner may free
/// (tensor/memory/storage_owner.h). It is part of the segment's SavingPolicyScope.
class FirstRun {
 public:
  /// Keeps the results of operations of the names in `keep`.
  explicit FirstRun(std::vector<std::string> keep) : names_(std::move(keep)) {}

  /// Whether the results of operations named `name` are kept. `record` asks for operations that pass their
  /// result as a function to call.
  bool keeps(const char* name) const;
  /// The result of `compute`, stored call by call; in a rerun, its result in the first run. Throws
  /// AutogradError when that was changed in place since, or when the rerun calls the operations in another
  /// order or more often.
  std::vector<Tensor> outputs(const char* name, FunctionRef<std::vector<Tensor>()> compute);
  /// Notes the name of an operation that ran on constants: its result is not kept.
  void note_constant(const char* name) {
    if (!rerun_ && keeps(name)) names_on_constants_.push_back(name);
  }
  /// To call after the first run: throws ValueError naming `segment` for a name that belongs neither to an
  /// operation of the library that can be kept nor to one that the segment ran.
  void require_names_known(const std::string& segment) const;

  /// The first run stores `present`, the state of `owner`, in order (a segment may change a mode itself), and
  /// returns it; the rerun returns what was stored.
  bool state_of(const void* owner, bool present);
  /// The first run stores `storage`, once; the rerun does nothing.
  void note_parameter(const intrusive_ptr<Storage>& storage);

  /// To call before each rerun, which then reads what was stored, from the first call on. Brings the values
  /// of the stored storages back.
  void begin_rerun();
  /// Whether the segment runs again.
  bool is_rerun() const { return rerun_; }
  /// Drops all that is stored. The segment cannot run again then.
  void release();

 private:
  struct Call {
    std::string name;
    std::vector<Tensor> outputs;
    std::vector<uint64_t> versions;
  };
  struct States {
    std::vector<bool> stored;
    size_t next = 0;
  };
  std::vector<std::string> names_;
  std::vector<Call> calls_;
  std::vector<std::string> names_on_constants_;
  std::unordered_map<const void*, States> states_;
  std::vector<intrusive_ptr<Storage>> parameters_;
  bool rerun_ = false;
  size_t next_call_ = 0;
};

/// That of the innermost segment that this thread runs; null outside of segments.
inline FirstRun* current_first_run() {
  const SavingPolicyScope* scope = SavingPolicyScope::innermost();
  while (scope && !scope->segment()) scope = scope->outer();
  return scope ? scope->segment() : nullptr;
}

/// Whether this thread runs a segment, or one around it, again: what a first run changed beside its results,
/// such as running statistics, is not changed a second time.
inline bool reruns_segment() {
  for (const SavingPolicyScope* scope = SavingPolicyScope::innermost(); scope; scope = scope->outer())
    if (scope->segment() && scope->segment()->is_rerun()) return true;
  return false;
}

/// `present`, the present state of `owner`; in the rerun of a checkpointed segment, the state in the first
/// run.
bool state_in_first_run(const void* owner, bool present);
/// Notes for the segments that this thread runs, if any, that an operation saves `parameter` by reference.
void note_parameter_of_segments(const Tensor& parameter);

}  // namespace tessera
