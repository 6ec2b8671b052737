#pragma once

#include "tensor/ops/optimizer_update.h"

namespace tessera::kernels::cpu {

void adam_update(std::span<const ops::UpdateItem> items, std::span<const ops::AdamGroup> groups,
                 const Tensor& clip);
void sgd_update(std::span<const ops::UpdateItem> items, std::span<const ops::SgdGroup> groups,
                const Tensor& clip);
void rmsprop_update(std::span<const ops::UpdateItem> items, std::span<const ops::RmspropGroup> groups,
                    const Tensor& clip);
void adagrad_update(std::span<const ops::UpdateItem> items, std::span<const ops::AdagradGroup> groups,
                    const Tensor& clip);

}  // namespace tessera::kernels::cpu
