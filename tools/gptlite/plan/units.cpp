#include "tools/gptlite/plan/units.h"

#include <charconv>
#include <vector>

#include "models/gpt.h"
#include "tensor/error.h"

namespace tessera::gptlite {
namespace {

/// A tied embedding is used at both ends of the model: it stays in the root's unit, which is gathered once.
dist::UnitPolicy by_size(int64_t elements) {
  return dist::UnitPolicy([policy = dist::min_num_params(elements)](nn::Module& root) {
    std::vector<nn::Module*> chosen = policy.choose(root);
    const auto* gpt = dynamic_cast<const models::Gpt*>(&root);
    if (gpt && gpt->o.tie_weights) std::erase(chosen, &gpt->wte);
    return chosen;
  });
}

}  // namespace

dist::UnitPolicy unit_policy(const std::string& auto_wrap) {
  if (auto_wrap == "block") return dist::every<models::Block>();
  if (auto_wrap == "none") return {};
  int64_t elements = 0;
  const std::string prefix = "size:";
  const bool has_prefix = auto_wrap.starts_with(prefix);
  const char* end = auto_wrap.data() + auto_wrap.size();
  const auto [rest, error] =
      std::from_chars(auto_wrap.data() + (has_prefix ? prefix.size() : auto_wrap.size()), end, elements);
  require<ConfigError>(has_prefix && error == std::errc() && rest == end && elements >= 1, "--auto-wrap '",
                       auto_wrap, "': expected block, none, or size:N with at least N parameters a unit");
  return by_size(elements);
}

}  // namespace tessera::gptlite
