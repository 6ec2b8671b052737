#include "nn/embedding.h"

#include "autograd/functions/indexing.h"
#include "autograd/functions/loss.h"
#include "autograd/functions/matmul.h"

namespace tessera::nn {

/// The result of `lookup`; its IndexError gets the layer's name.
template <class Lookup>
Variable Embedding::with_name_in_errors(const Lookup& lookup) const {
  try {
    return lookup();
  } catch (const IndexError& error) {
    throw IndexError(text("nn::Embedding '", full_name(), "': ", error.what()));
  }
}

Variable Embedding::forward(const Tensor& ids) {
  return with_name_in_errors([&] { return embedding(ids, weight); });
}

Variable Embedding::forward(const Tensor& ids, const Variable& addend, const DropoutMask& mask) {
  return with_name_in_errors([&] { return embedding_add(ids, weight, addend, mask); });
}

Variable Embedding::forward(const Variable& x, TiedHead) {
  return linear(x, weight);
}

Variable Embedding::forward(const Variable& x, TiedHead, const Tensor& targets) {
  return linear_cross_entropy(x, weight, targets);
}

}  // namespace tessera::nn
