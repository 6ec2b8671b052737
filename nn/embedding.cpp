#include "nn/embedding.h"

#include "autograd/functions/indexing.h"
#include "autograd/functions/loss.h"
#include "autograd/functions/matmul.h"

namespace tessera::nn {

/// What `lookup` gives; its IndexError then names the layer.
template <class Lookup>
Variable Embedding::named(const Lookup& lookup) const {
  try {
    return lookup();
  } catch (const IndexError& error) {
    throw IndexError(text("nn::Embedding '", full_name(), "': ", error.what()));
  }
}

Variable Embedding::forward(const Tensor& ids) {
  return named([&] { return embedding(ids, weight); });
}

Variable Embedding::forward(const Tensor& ids, const Variable& addend, const DropoutMask& mask) {
  return named([&] { return embedding_add(ids, weight, addend, mask); });
}

Variable Embedding::forward(const Variable& x, TiedHead) {
  return linear(x, weight);
}

Variable Embedding::forward(const Variable& x, TiedHead, const Tensor& targets) {
  return linear_cross_entropy(x, weight, targets);
}

}  // namespace tessera::nn
