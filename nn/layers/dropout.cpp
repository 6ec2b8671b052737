#include "nn/layers/dropout.h"

#include "tensor/random/random_context.h"

namespace tessera::nn {

Dropout::Dropout(Options options) : Layer(options) {
  require<ConfigError>(o.probability >= 0 && o.probability < 1,
                       "nn::Dropout: expected a probability in [0, 1), got ", o.probability);
}

DropoutMask Dropout::mask() const {
  if (!is_training() || o.probability == 0) return {};
  return {.probability = o.probability, .key = next_random_key(full_name()), .samples = o.samples};
}

Variable Dropout::forward(const Variable& x) const {
  return apply_dropout({x, mask()});
}

Variable apply_dropout(const BeforeDropout& result) {
  return result.mask.probability == 0 ? result.value : dropout(result.value, result.mask);
}

Variable add_dropout(const Variable& x, const BeforeDropout& branch) {
  return add_dropout(x, branch.value, branch.mask);
}

}  // namespace tessera::nn
