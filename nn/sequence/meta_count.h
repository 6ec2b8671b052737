#pragma once  // internal

#include <cstdint>
#include <utility>

#include "autograd/grad_mode.h"
#include "tensor/memory/account.h"
#include "tensor/profile/cost.h"
#include "tensor/random/random_context.h"

namespace tessera::nn {

/// Bytes and FLOPs of this thread on meta since its construction, with graphs recorded. Draws no numbers of
/// the run.
class MetaCount {
 public:
  /// Held now, and the most at once since the construction or `take_peak`.
  /// @{
  int64_t bytes() const { return memory_->total().current; }
  int64_t peak() const { return memory_->total().peak; }
  int64_t take_peak() {
    const int64_t taken = peak();
    memory_->reset_peaks();
    return taken;
  }
  /// @}
  /// Counted since the construction or `take_flops`.
  /// @{
  int64_t flops() const { return cost_.flops; }
  int64_t take_flops() { return std::exchange(cost_.flops, 0); }
  /// @}

 private:
  intrusive_ptr<MemoryAccount> memory_ = make_intrusive<MemoryAccount>();
  MetaAccountScope account_{memory_};
  Cost cost_;
  CostScope scope_{cost_};
  GradMode record_{true};
  RandomContextScope random_{random_context()};
};

}  // namespace tessera::nn
