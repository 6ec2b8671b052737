#pragma once  // internal

#include <span>
#include <utility>
#include <vector>

#include "autograd/grad_mode.h"
#include "autograd/graph/saved.h"

namespace tessera {

/// Computes an output again from kept inputs; see `attach_recompute`.
template <class Make>
class RecomputedValue final : public ValueSource {
 public:
  /// Saves `inputs` for the operation `name` (a string literal). `make` computes the output from their
  /// tensors.
  RecomputedValue(const char* name, std::span<const SavedItem> inputs, Make make)
      : name_(name), make_(std::move(make)) {
    for (const SavedItem& item : inputs) inputs_.emplace_back(name, item, std::span<const Tensor>{});
  }
  Tensor produce() override {
    std::vector<Tensor> values;
    values.reserve(inputs_.size());
    for (const SavedValue& input : inputs_) values.push_back(input.tensor(name_));
    return make_(std::span<const Tensor>(values));
  }

 private:
  const char* name_;
  std::vector<SavedValue> inputs_;
  Make make_;
};

/// Attaches to `y`, the result of the operation `name`, the recompute function `make`. It returns y again, to
/// the same bits, from `inputs` (declared by `saved`) that are kept for a backward anyway. An operation that
/// saves y then saves the function instead, and y is freed after its last use in the forward; each read calls
/// `make` once. For results that cost a pass over memory, not for those of a product. Does nothing where no
/// graph is recorded, or where a saving policy decides (a checkpointed segment keeps still less).
///
///     attach_recompute(y, "layer_norm", saved(x, weight, mean, rstd),
///                      [](std::span<const Tensor> v) {
///                        return ops::recompute_normalized(v[0], v[1], v[2], v[3]);
///                      });
template <size_t N, class Make>
void attach_recompute(const Variable& y, const char* name, const std::array<SavedItem, N>& inputs,
                      Make make) {
  if (!grad_mode() || !y.requires_grad() || current_saving_policy()) return;
  y.impl()->recompute = std::make_shared<RecomputedValue<Make>>(name, inputs, std::move(make));
  y.impl()->recompute_version = y.value().version();
}

}  // namespace tessera
