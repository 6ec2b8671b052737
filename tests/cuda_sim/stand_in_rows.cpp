// Subjects of instructions that are not there yet.
#include "tools/cuda_sim/instructions/opcode_rows.h"

namespace tessera::cuda_sim {
std::span<const OpcodeRow> convert_rows() { return {}; }
std::span<const OpcodeRow> mbarrier_rows() { return {}; }
std::span<const OpcodeRow> matrix_move_rows() { return {}; }
std::span<const OpcodeRow> atomic_rows() { return {}; }
std::span<const OpcodeRow> mma_rows() { return {}; }
}  // namespace tessera::cuda_sim
