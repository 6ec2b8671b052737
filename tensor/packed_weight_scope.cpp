#include "tensor/packed_weight_scope.h"

#include "tensor/cpu/gemm/kept_operands.h"
#include "tensor/cpu/gemm/packed/packed_ranges.h"
#include "tensor/cpu/gemm/pairs/gemm_bf16_kernels.h"

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

int64_t PackedWeightScope::most_bytes(int64_t out, int64_t in, DType dtype) {
  using namespace kernels::cpu;
  const auto packed = [dtype](int64_t k, int64_t n) -> int64_t {
    if (dtype == f32) return 4 * packed_panels(n) * packed_panel_stride(k);
    return dtype == bf16 ? 4 * PairPanels::size_for(k, n) : 0;
  };
  return out == 0 || in == 0 ? 0 : packed(in, out) + packed(out, in);
}

void PackedWeightScope::renew() {
  if (kept_operands) kept_operands->renew();
}

}  // namespace tessera
