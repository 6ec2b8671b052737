#include "autograd/parameter_list.h"

namespace tessera {

void ParameterReducer::sum_over_shards(std::span<double> values) {
  require<ConfigError>(values.empty(), "this reducer has no sums over the shards of single parameters");
}

}  // namespace tessera
