#include "tensor/cpu/losses/class_targets.h"

namespace tessera::kernels::cpu {

void check_class_targets(const char* where, const Tensor& targets, int64_t classes,
                         std::optional<int64_t> ignored) {
  const int64_t* const ids = targets.data<int64_t>();
  for (int64_t i = 0; i < targets.numel(); ++i)
    require<IndexError>(ids[i] == ignored || (ids[i] >= 0 && ids[i] < classes), where, ": target ", ids[i],
                        " at element ", i, " is not a class: they go from 0 to ", classes - 1,
                        ignored ? text(", and ", *ignored, " is ignored") : "");
}

}  // namespace tessera::kernels::cpu
