#include "tensor/composed/shaping/arrangements.h"

#include "tensor/functions.h"

namespace tessera {
using X = Tensor;
namespace {

/// The (row, column) pairs of a matrix for which `kept(column - row)`.
template <class Kept>
Tensor kept_indices(const char* where, int64_t rows, int64_t columns, Kept kept) {
  require<ValueError>(rows >= 0 && columns >= 0, where, ": expected extents of at least 0, got ", rows,
                      " and ", columns);
  std::vector<int64_t> first, second;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      if (kept(c - r)) {
        first.push_back(r);
        second.push_back(c);
      }
  const int64_t n = std::ssize(first);
  first.insert(first.end(), second.begin(), second.end());
  return Tensor::from(first).view({2, n});
}

}  // namespace

Tensor tril_indices(int64_t rows, int64_t columns, int64_t offset) {
  return kept_indices("tril_indices", rows, columns,
                      [offset](int64_t distance) { return distance <= offset; });
}

Tensor triu_indices(int64_t rows, int64_t columns, int64_t offset) {
  return kept_indices("triu_indices", rows, columns,
                      [offset](int64_t distance) { return distance >= offset; });
}

}  // namespace tessera

#include "tensor/composed/shaping/arrangements.inc"
