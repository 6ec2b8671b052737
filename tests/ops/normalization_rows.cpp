#include "autograd/functions/normalization.h"

#include "tests/ops/table.h"

namespace tessera::test {

std::vector<OpRow> normalization_rows() {
  const std::map<std::string, std::string> last_axis_only = {
      {"two_axes_plain", "without a weight, whose shape says how many, the last axis alone is normalised"}};
  return {
      {.name = "layer_norm",
       .family = "normalization",
       .call = [](const Given& g) { return layer_norm(g[0], g.optional(1), g.optional(2), g.real("eps")); },
       .except = last_axis_only},
      {.name = "rms_norm",
       .family = "normalization",
       .call = [](const Given& g) { return rms_norm(g[0], g.optional(1), g.real("eps")); },
       .except = last_axis_only},
  };
}

}  // namespace tessera::test
