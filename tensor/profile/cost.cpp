#include "tensor/profile/cost.h"

#include <utility>

#include "tensor/profile/span.h"

namespace tessera {
namespace {
thread_local CostScope* innermost = nullptr;
thread_local int64_t profiled_flops = 0;
}  // namespace

void count_flops(int64_t flops) {
  for (CostScope* scope = innermost; scope; scope = scope->outer_) scope->cost_->flops += flops;
  if (profiling()) [[unlikely]]
    profiled_flops += flops;
}

int64_t take_counted_flops() {
  return std::exchange(profiled_flops, 0);
}

CostScope::CostScope(Cost& cost) : cost_(&cost), outer_(innermost) {
  innermost = this;
}
CostScope::~CostScope() {
  innermost = outer_;
}

}  // namespace tessera
