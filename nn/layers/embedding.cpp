#include "nn/layers/embedding.h"

#include <algorithm>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/layers/loss.h"
#include "autograd/functions/matmul.h"
#include "nn/layers/quantized_product.h"

namespace tessera::nn {

init::Initializer EmbeddingOptions::initializer() const {
  if (padding_idx < 0) return weight_init;
  const auto fill = [values = weight_init, row = padding_idx](const Tensor& out, uint64_t key,
                                                              const Shape& full_shape, int64_t first_index) {
    values.fill(out, key, full_shape, first_index);
    const int64_t width = full_shape[1], first = std::max(row * width - first_index, int64_t{0}),
                  end = std::min((row + 1) * width - first_index, out.numel());
    if (first < end) out.view({out.numel()}).narrow(0, first, end - first).zero();
  };
  return {text(weight_init.description(), ", row ", padding_idx, " 0"), fill,
          weight_init.needs_full_tensor()};
}

Embedding::Embedding(Options options) : Layer(std::move(options)) {
  require<ConfigError>(o.padding_idx >= -1 && o.padding_idx < o.count,
                       "nn::Embedding: expected a padding_idx in [-1, ", o.count, "), got ", o.padding_idx);
}

std::string Embedding::describe_options() const {
  return text(o.count, " x ", o.width, o.padding_idx >= 0 ? text(", padding_idx ", o.padding_idx) : "",
              o.scale != 1 ? text(", times ", o.scale) : "");
}

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
  const Variable rows = with_name_in_errors([&] { return embedding(ids, weight, o.padding_idx); });
  return o.scale == 1 ? rows : rows * o.scale;
}

Variable Embedding::forward_add(const Tensor& ids, const Variable& addend, const DropoutMask& mask) const {
  require<ConfigError>(o.padding_idx < 0 && o.scale == 1, "nn::Embedding '", full_name(),
                       "': forward_add takes neither padding_idx nor scale");
  const auto body = [this, ids, mask](const Variable& added) {
    return with_name_in_errors([&] { return embedding_add(ids, weight, added, mask); });
  };
  return call(rerunnable(body), addend);
}

Variable Embedding::logits(const Variable& x) const {
  const auto body = [this](const Variable& in) {
    if (!quantized_logits_weight()) return linear(in, weight);
    return quantized_product(quantized_operand(*this, in), current_integers(), nullptr);
  };
  return call(rerunnable(body), x);
}

Variable Embedding::cross_entropy(const Variable& x, const Tensor& targets) const {
  const auto body = [this, targets](const Variable& in) {
    if (!quantized_logits_weight()) return linear_cross_entropy(in, weight, targets);
    return quantized_cross_entropy(quantized_operand(*this, in), current_integers(), nullptr, targets, {});
  };
  return call(rerunnable(body), x);
}

ops::QuantizedWeight Embedding::quantized_table() const {
  require_not_parametrized(*this);
  return quantize_weight(*this, weight);
}

void Embedding::quantize_logits() {
  quantized_ = quantized_table();
  quantized_from_ = weight.value();
  quantized_version_ = quantized_from_.version();
}

bool Embedding::is_current() const {
  return quantized_from_.defined() && weight.value().storage() == quantized_from_.storage() &&
         weight.value().version() == quantized_version_;
}

const ops::QuantizedWeight& Embedding::current_integers() const {
  require<ConfigError>(is_current(), "nn::Embedding '", full_name(),
                       "': the table was changed after its 8-bit integers were made; call quantize_logits, "
                       "or quantize_weights of the model, again");
  return quantized_;
}

void Embedding::copy_options(const Module& original) {
  Layer::copy_options(original);
  const auto& from = static_cast<const Embedding&>(original);
  quantized_ = from.quantized_;
  if (!quantized_.defined() || !from.is_current()) return;
  quantized_from_ = weight.value();
  quantized_version_ = quantized_from_.version();
}

}  // namespace tessera::nn
