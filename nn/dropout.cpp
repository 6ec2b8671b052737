#include "nn/dropout.h"

#include "autograd/functions/dropout.h"
#include "tensor/random/random_context.h"

namespace tessera::nn {

Dropout::Dropout(Options options) : o(options) {
  require<ConfigError>(o.probability >= 0 && o.probability < 1,
                       "nn::Dropout: expected a probability in [0, 1), got ", o.probability);
}

DropoutMask Dropout::mask() const {
  if (!is_training() || o.probability == 0) return {};
  return {.probability = o.probability, .key = next_random_key(full_name()), .samples = o.samples};
}

Variable Dropout::forward(const Variable& x) {
  const DropoutMask drawn = mask();
  return drawn.probability == 0 ? x : dropout(x, drawn);
}

Residual Dropout::forward(const Variable& x, const Variable& delta) {
  return {.x = x, .delta = delta, .dropout = mask()};
}

}  // namespace tessera::nn
