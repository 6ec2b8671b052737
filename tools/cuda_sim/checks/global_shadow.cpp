#include "tools/cuda_sim/checks/shadow.h"

namespace tessera::cuda_sim {

struct GlobalShadow::State {};

GlobalShadow::GlobalShadow(uint64_t, uint64_t, Findings&, const OperationOrder&)
    : state_(std::make_unique<State>()) {}
GlobalShadow::~GlobalShadow() = default;
void GlobalShadow::access(Warp&, const Instruction&, const Access&) {}
void GlobalShadow::fence(Warp&, const Instruction&, Scope) {}
void GlobalShadow::access_range(Operation, uint64_t, uint64_t, bool, const char*) {}
void GlobalShadow::forget(uint64_t, uint64_t) {}

}  // namespace tessera::cuda_sim
