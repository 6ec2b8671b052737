#include "tensor/packed_weight_scope.h"

#include "tensor/cpu/gemm/kept_operands.h"

namespace tessera {

using kernels::cpu::kept_operands;

PackedWeightScope::PackedWeightScope() {
  if (kept_operands != nullptr) return;
  own_ = std::make_unique<kernels::cpu::KeptOperands>();
  kept_operands = own_.get();
}

PackedWeightScope::~PackedWeightScope() {
  if (own_) kept_operands = nullptr;
}

int64_t PackedWeightScope::kept_bytes() {
  return kept_operands ? kept_operands->bytes() : 0;
}

void PackedWeightScope::renew() {
  if (kept_operands) kept_operands->renew();
}

}  // namespace tessera
