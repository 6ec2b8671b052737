// A rank's own part of calls of which the other ranks are processes.
#pragma once

#include <cstdint>

#include "tools/cuda_sim/libraries/nccl/team.h"

namespace tessera::cuda_sim::nccl {

/// Shows the call to the other ranks and carries it out once theirs are there. True: it is over, with an
/// error of the team where a rank has ended, disagrees, or could not carry it out.
bool step(Call& call, uint32_t operation);
/// The first calls of this rank that are not over, for the reports of the others.
void show_queue(Team& team);

}  // namespace tessera::cuda_sim::nccl
