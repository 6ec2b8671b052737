#include "nn/dropout.h"

#include "autograd/functions/dropout.h"
#include "tensor/random_context.h"

namespace tessera::nn {

Dropout::Dropout(Options options) : o(options) {
  require<ConfigError>(o.probability >= 0 && o.probability < 1,
                       "nn::Dropout: the probability is to be in [0, 1), got ", o.probability);
}

Variable Dropout::forward(const Variable& x) {
  if (!is_training() || o.probability == 0) return x;
  return dropout(x, o.probability, next_random_key(full_name()));
}

}  // namespace tessera::nn
