// Random numbers for dropout: the same for the same seed, offset and element in every node that asks, so that
// a backward graph finds the forward's. They are not the real library's.
#include <cmath>
#include <cstdint>

#include "tools/cuda_sim/libraries/cudnn/execution/nodes.h"

namespace tessera::cuda_sim::cudnn {

namespace {

/// SplitMix64 (Steele, Lea, Flood 2014).
uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// In [0, 1).
double uniform(uint64_t seed, uint64_t offset, uint64_t element) {
  return static_cast<double>(mixed(mixed(mixed(seed) ^ offset) ^ element) >> 11) * 0x1p-53;
}

}  // namespace

void run_random(const Node& node, const Graph& graph, NodeValues& values) {
  const Descriptor& how = *node.how;
  const auto scalar = [&](cudnnBackendAttributeName_t role, int64_t otherwise) {
    const int index = node.find(role);
    return static_cast<uint64_t>(index < 0 ? otherwise
                                           : static_cast<int64_t>(values.get(index).values.front()));
  };
  const uint64_t seed = scalar(CUDNN_ATTR_OPERATION_RNG_SEED,
                               node.operation->get<int64_t>(CUDNN_ATTR_OPERATION_RNG_SEED)),
                 offset = scalar(CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC, 0);
  const int y_index = node.outputs.front().tensor;
  Array y = empty_array(graph, y_index);
  constexpr double two_pi = 6.283185307179586;
  for (size_t i = 0; i < y.values.size(); ++i) {
    const double u = uniform(seed, offset, 2 * i);
    switch (how.get<cudnnRngDistribution_t>(CUDNN_ATTR_RNG_DISTRIBUTION)) {
      case CUDNN_RNG_DISTRIBUTION_BERNOULLI:
        y.values[i] = u < how.real(CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, 0) ? 1 : 0;
        break;
      case CUDNN_RNG_DISTRIBUTION_UNIFORM: {
        const double low = how.real(CUDNN_ATTR_RNG_UNIFORM_DIST_MINIMUM, 0);
        y.values[i] = low + u * (how.real(CUDNN_ATTR_RNG_UNIFORM_DIST_MAXIMUM, 1) - low);
        break;
      }
      default:
        y.values[i] = how.real(CUDNN_ATTR_RNG_NORMAL_DIST_MEAN, 0) +
                      how.real(CUDNN_ATTR_RNG_NORMAL_DIST_STANDARD_DEVIATION, 1) *
                          std::sqrt(-2 * std::log(1 - u)) *
                          std::cos(two_pi * uniform(seed, offset, 2 * i + 1));
    }
  }
  values.put(y_index, std::move(y));
}

}  // namespace tessera::cuda_sim::cudnn
