#include "tensor/composed/linalg.h"

#include "tensor/functions.h"
#include "tensor/ops/linalg/matrices.h"

namespace tessera {
using X = Tensor;
namespace {

const Tensor& value_of(const Tensor& x) {
  return x;
}

}  // namespace

namespace linalg::detail {

std::vector<std::vector<int64_t>> chain_splits(const std::vector<int64_t>& extents) {
  const int64_t count = std::ssize(extents) - 1;
  std::vector<std::vector<double>> cost(count, std::vector<double>(count));
  std::vector<std::vector<int64_t>> splits(count, std::vector<int64_t>(count));
  for (int64_t length = 1; length < count; ++length)
    for (int64_t i = 0; i + length < count; ++i) {
      const int64_t j = i + length;
      for (int64_t k = i; k < j; ++k) {
        const double total = cost[i][k] + cost[k + 1][j] +
                             static_cast<double>(extents[i]) * static_cast<double>(extents[k + 1]) *
                                 static_cast<double>(extents[j + 1]);
        if (k > i && total >= cost[i][j]) continue;
        cost[i][j] = total;
        splits[i][j] = k;
      }
    }
  return splits;
}

}  // namespace linalg::detail
}  // namespace tessera

#include "tensor/composed/linalg.inc"
