#include "tensor/cost.h"

namespace tessera {
namespace {
thread_local CostScope* innermost = nullptr;
}

void count_flops(int64_t flops) {
  for (CostScope* scope = innermost; scope; scope = scope->outer_) scope->cost_->flops += flops;
}

CostScope::CostScope(Cost& cost) : cost_(&cost), outer_(innermost) {
  innermost = this;
}
CostScope::~CostScope() {
  innermost = outer_;
}

}  // namespace tessera
