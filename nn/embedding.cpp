#include "nn/embedding.h"

#include "autograd/functions/indexing.h"

namespace tessera::nn {

Variable Embedding::forward(const Tensor& ids) {
  try {
    return embedding(ids, weight);
  } catch (const IndexError& error) {
    throw IndexError(text("nn::Embedding '", full_name(), "': ", error.what()));
  }
}

}  // namespace tessera::nn
