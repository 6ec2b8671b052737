#include "data/padding.h"

#include <algorithm>

#include "data/batch.h"
#include "tensor/ops/creation/creation.h"

namespace tessera::data {

Example padding_like(const Example& like, std::span<const std::string> targets) {
  return like.map([targets](std::string_view name, const Tensor& value) {
    const bool is_target = std::find(targets.begin(), targets.end(), name) != targets.end();
    if (!is_target || (value.dtype() != i64 && value.dtype() != i32)) return value;
    return ops::full(value.shape(), ignored_target, value.dtype());
  });
}

}  // namespace tessera::data
