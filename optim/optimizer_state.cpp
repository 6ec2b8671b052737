#include "optim/optimizer_state.h"

#include <map>
#include <string_view>

namespace tessera::optim {
namespace {

using Index = std::map<std::string_view, const Tensor*>;

/// Lists up to four names, and how many more there are.
class NameList {
 public:
  void add(std::string_view name) {
    if (count_++ < 4) names_ += text(names_.empty() ? "'" : ", '", name, "'");
  }
  bool empty() const { return count_ == 0; }
  std::string str() const { return count_ <= 4 ? names_ : text(names_, " and ", count_ - 4, " more"); }

 private:
  int count_ = 0;
  std::string names_;
};

Index index_of(const OptimizerState& state) {
  Index index;
  for (const NamedTensor& entry : state.tensors)
    require<CheckpointError>(index.emplace(entry.name, &entry.tensor).second, "optimizer state: entry '",
                             entry.name, "' occurs twice");
  return index;
}

void require_names(const Index& saved, const Index& expected) {
  NameList missing, unexpected;
  for (const auto& [name, tensor] : expected)
    if (!saved.contains(name)) missing.add(name);
  for (const auto& [name, tensor] : saved)
    if (!expected.contains(name)) unexpected.add(name);
  require<CheckpointError>(missing.empty(), "optimizer state: missing ", missing.str());
  require<CheckpointError>(unexpected.empty(), "optimizer state: unexpected ", unexpected.str());
}

}  // namespace

void require_fits(const OptimizerState& saved, const OptimizerState& expected) {
  require<CheckpointError>(saved.optimizer == expected.optimizer, "optimizer state: expected that of ",
                           expected.optimizer, ", got that of ", saved.optimizer);
  const Index given = index_of(saved), required = index_of(expected);
  require_names(given, required);
  for (const auto& [name, tensor] : required) {
    const Tensor& got = *given.at(name);
    require<CheckpointError>(
        got.defined() && got.shape() == tensor->shape() && got.dtype() == tensor->dtype(),
        "optimizer state '", name, "': expected ", tensor->shape(), " ", tensor->dtype(), ", got ",
        describe(got));
    const bool has_values = got.device() == tensor->device() || (!got.is_meta() && !tensor->is_meta());
    require<CheckpointError>(has_values, "optimizer state '", name, "': expected it on ", tensor->device(),
                             ", got ", describe(got));
  }
  require<CheckpointError>(saved.groups.empty() || saved.groups.size() == expected.groups.size(),
                           "optimizer state: expected the options of ", expected.groups.size(),
                           " groups, got ", saved.groups.size());
}

}  // namespace tessera::optim
