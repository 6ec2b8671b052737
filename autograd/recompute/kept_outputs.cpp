#include "autograd/recompute/kept_outputs.h"

#include <algorithm>
#include <utility>

namespace tessera {
namespace {
thread_local KeptOutputs* current = nullptr;

/// The library's operations that pass `record` a function to call.
constexpr const char* keepable_operations[] = {"activation_linear", "linear", "matmul",
                                               "scaled_dot_product_attention", "self_attention"};
}  // namespace

KeptOutputs* current_kept_outputs() {
  return current;
}

KeptOutputsScope::KeptOutputsScope(KeptOutputs* kept) : outer_(std::exchange(current, kept)) {}
KeptOutputsScope::~KeptOutputsScope() {
  current = outer_;
}

bool KeptOutputs::keeps(const char* name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

void KeptOutputs::require_names_known(const std::string& segment) const {
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

std::vector<Tensor> KeptOutputs::outputs(const char* name, FunctionRef<std::vector<Tensor>()> compute) {
  if (!rerun_) {
    Call call{name, compute(), {}};
    for (const Tensor& output : call.outputs) call.versions.push_back(output.version());
    calls_.push_back(call);
    return call.outputs;
  }
  require<AutogradError>(next_ < calls_.size(), "checkpoint: the rerun of a segment calls '", name,
                         "', whose results are kept, after the ", calls_.size(),
                         " calls with kept results of the first run");
  const Call& call = calls_[next_++];
  require<AutogradError>(call.name == name, "checkpoint: the rerun of a segment calls '", name,
                         "' where the first run called '", call.name, "', whose results are kept");
  for (size_t i = 0; i < call.outputs.size(); ++i)
    require<AutogradError>(call.outputs[i].version() == call.versions[i], "checkpoint: the result of '", name,
                           "', ", describe(call.outputs[i]),
                           ", which a segment keeps, was changed in place after the first run");
  return call.outputs;
}

}  // namespace tessera
