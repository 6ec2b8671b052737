#include "autograd/kept_outputs.h"

#include <algorithm>
#include <utility>

namespace tessera {
namespace {
thread_local KeptOutputs* current = nullptr;

/// The library's operations that give `record` a function to call.
constexpr const char* known_names[] = {"activation_linear", "linear", "matmul",
                                       "scaled_dot_product_attention", "self_attention"};
}  // namespace

KeptOutputs* current_kept_outputs() {
  return current;
}

KeptOutputsScope::KeptOutputsScope(KeptOutputs* kept) : outer_(std::exchange(current, kept)) {}
KeptOutputsScope::~KeptOutputsScope() {
  current = outer_;
}

bool KeptOutputs::wants(const char* name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

void KeptOutputs::require_names_known(const std::string& segment) const {
  for (const std::string& name : names_) {
    if (std::find(std::begin(known_names), std::end(known_names), name) != std::end(known_names)) continue;
    const auto is_it = [&name](const Call& call) { return call.name == name; };
    if (std::any_of(calls_.begin(), calls_.end(), is_it)) continue;
    if (std::find(on_constants_.begin(), on_constants_.end(), name) != on_constants_.end()) continue;
    std::string known;
    for (const char* other : known_names) known += (known.empty() ? "'" : ", '") + std::string(other) + "'";
    throw ValueError(text("checkpoint '", segment, "': keep names '", name,
                          "', which is no operation whose results can be kept, and the segment ran none of "
                          "that name; known are ",
                          known));
  }
}

std::vector<Tensor> KeptOutputs::outputs(const char* name, FunctionRef<std::vector<Tensor>()> compute) {
  if (!rerun_) {
    Call call{name, compute(), {}};
    for (const Tensor& output : call.outputs) call.versions.push_back(output.version());
    calls_.push_back(call);
    return call.outputs;
  }
  require<AutogradError>(next_ < calls_.size(), "checkpoint: running a segment again calls '", name,
                         "', whose results it keeps, more often than the first run did (", calls_.size(),
                         " times)");
  const Call& call = calls_[next_++];
  require<AutogradError>(call.name == name, "checkpoint: running a segment again calls '", name,
                         "' where the first run called '", call.name, "', whose results it keeps");
  for (size_t i = 0; i < call.outputs.size(); ++i)
    require<AutogradError>(call.outputs[i].version() == call.versions[i], "checkpoint: the result of '", name,
                           "', ", describe(call.outputs[i]),
                           ", that a segment keeps was changed in place after the first run");
  return call.outputs;
}

}  // namespace tessera
