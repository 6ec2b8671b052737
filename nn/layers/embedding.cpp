#include "nn/layers/embedding.h"

#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/layers/loss.h"
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

Variable Embedding::forward(const Tensor& ids) const {
  return with_name_in_errors([&] { return embedding(ids, weight); });
}

Variable Embedding::forward_add(const Tensor& ids, const Variable& addend, const DropoutMask& mask) const {
  const auto body = [this, ids, mask](const Variable& added) {
    return with_name_in_errors([&] { return embedding_add(ids, weight, added, mask); });
  };
  return call(rerunnable(body), addend);
}

Variable Embedding::logits(const Variable& x) const {
  return call(rerunnable([this](const Variable& in) { return linear(in, weight); }), x);
}

Variable Embedding::cross_entropy(const Variable& x, const Tensor& targets) const {
  return call(
      rerunnable([this, targets](const Variable& in) { return linear_cross_entropy(in, weight, targets); }),
      x);
}

}  // namespace tessera::nn
