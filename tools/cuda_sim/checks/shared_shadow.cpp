#include "tools/cuda_sim/checks/shadow.h"

namespace tessera::cuda_sim {

struct SharedShadow::State {};

SharedShadow::SharedShadow(Findings&) : state_(std::make_unique<State>()) {}
SharedShadow::~SharedShadow() = default;
void SharedShadow::reset(uint32_t) {}
void SharedShadow::access(Warp&, const Instruction&, const Access&) {}
void SharedShadow::copy_issued(Warp&, const Instruction&, int, uint32_t, uint32_t) {}
void SharedShadow::copy_done(Warp&, const Instruction&, int, uint32_t, uint32_t) {}

}  // namespace tessera::cuda_sim
