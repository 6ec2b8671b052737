#include "autograd/recompute/first_run.h"

#include <algorithm>

#include "tensor/memory/storage_owner.h"

namespace tessera {
namespace {

/// The library's operations that pass `record` a function to call.
constexpr const char* keepable_operations[] = {"activation_linear",
                                               "convolution",
                                               "convolution_input_gradient",
                                               "linear",
                                               "matmul",
                                               "scaled_dot_product_attention",
                                               "self_attention"};

}  // namespace

// Kept results.

bool FirstRun::keeps(const char* name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

void FirstRun::require_names_known(const std::string& segment) const {
  for (const std::string& name : names_) {
    if (std::find(std::begin(keepable_operations), std::end(keepable_operations), name) !=
        std::end(keepable_operations))
      continue;
    const auto has_name = [&name](const Call& call) { return call.name == name; };
    if (std::any_of(calls_.begin(), calls_.end(), has_name)) continue;
    if (std::find(names_on_constants_.begin(), names_on_constants_.end(), name) != names_on_constants_.end())
      continue;
    std::string known;
    for (const char* other : keepable_operations)
      known += (known.empty() ? "'" : ", '") + std::string(other) + "'";
    throw ValueError(text("checkpoint '", segment, "': option keep: expected an operation among ", known,
                          ", or one that the segment runs, got '", name, "'"));
  }
}

std::vector<Tensor> FirstRun::outputs(const char* name, FunctionRef<std::vector<Tensor>()> compute) {
  if (!rerun_) {
    Call call{name, compute(), {}};
    for (const Tensor& output : call.outputs) call.versions.push_back(output.version());
    calls_.push_back(call);
    return call.outputs;
  }
  require<AutogradError>(next_call_ < calls_.size(), "checkpoint: the rerun of a segment calls '", name,
                         "', whose results are kept, after the ", calls_.size(),
                         " calls with kept results of the first run");
  const Call& call = calls_[next_call_++];
  require<AutogradError>(call.name == name, "checkpoint: the rerun of a segment calls '", name,
                         "' where the first run called '", call.name, "', whose results are kept");
  for (size_t i = 0; i < call.outputs.size(); ++i)
    require<AutogradError>(call.outputs[i].version() == call.versions[i], "checkpoint: the result of '", name,
                           "', ", describe(call.outputs[i]),
                           ", which a segment keeps, was changed in place after the first run");
  return call.outputs;
}

// States and parameters.

bool FirstRun::state_of(const void* owner, bool present) {
  States& states = states_[owner];
  if (!rerun_) states.stored.push_back(present);
  if (!rerun_ || states.stored.empty()) return present;
  return states.next < states.stored.size() ? states.stored[states.next++] : states.stored.back();
}

void FirstRun::note_parameter(const intrusive_ptr<Storage>& storage) {
  if (rerun_ || std::find(parameters_.begin(), parameters_.end(), storage) != parameters_.end()) return;
  parameters_.push_back(storage);
}

void FirstRun::begin_rerun() {
  rerun_ = true;
  next_call_ = 0;
  for (auto& [owner, states] : states_) states.next = 0;
  for (const intrusive_ptr<Storage>& storage : parameters_) ensure_values(*storage);
}

void FirstRun::release() {
  calls_.clear();
  names_on_constants_.clear();
  states_.clear();
  parameters_.clear();
}

// The segments that a thread runs.

void note_parameter_of_segments(const Tensor& parameter) {
  const SavingPolicyScope* scope = SavingPolicyScope::innermost();
  if (!scope || !owner_of(*parameter.storage())) [[likely]]
    return;
  for (; scope; scope = scope->outer())
    if (FirstRun* const segment = scope->segment()) segment->note_parameter(parameter.storage());
}

namespace {

/// From the outermost segment inwards: a nested segment takes the state that the outer one returns.
bool state_in_segments(const SavingPolicyScope* scope, const void* owner, bool present) {
  if (scope->outer()) present = state_in_segments(scope->outer(), owner, present);
  return scope->segment() ? scope->segment()->state_of(owner, present) : present;
}

}  // namespace

bool is_recomputing() {
  for (const SavingPolicyScope* scope = SavingPolicyScope::innermost(); scope; scope = scope->outer())
    if (scope->segment() && scope->segment()->is_rerun()) return true;
  return false;
}

bool state_in_first_run(const void* owner, bool present) {
  const SavingPolicyScope* const scope = SavingPolicyScope::innermost();
  if (!scope) [[likely]]
    return present;
  return state_in_segments(scope, owner, present);
}

}  // namespace tessera
