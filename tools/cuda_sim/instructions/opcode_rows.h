// The decoders of all instructions, by subject.
#pragma once

#include <span>

#include "tools/cuda_sim/machine/decode_context.h"

namespace tessera::cuda_sim {

/// Each is defined where its instructions are.
std::span<const OpcodeRow> rows_by_type();  // add, mul, min, ...: several kinds of types
std::span<const OpcodeRow> integer_rows();  // integer/
std::span<const OpcodeRow> carry_rows();
std::span<const OpcodeRow> bit_rows();
std::span<const OpcodeRow> logic_rows();
std::span<const OpcodeRow> floating_rows();  // floating/
std::span<const OpcodeRow> special_function_rows();
std::span<const OpcodeRow> convert_rows();     // convert/
std::span<const OpcodeRow> comparison_rows();  // data/
std::span<const OpcodeRow> move_rows();
std::span<const OpcodeRow> load_store_rows();  // memory/
std::span<const OpcodeRow> atomic_rows();
std::span<const OpcodeRow> address_rows();
std::span<const OpcodeRow> copy_async_rows();
std::span<const OpcodeRow> fence_rows();
std::span<const OpcodeRow> mbarrier_rows();
std::span<const OpcodeRow> warp_rows();  // warp/
std::span<const OpcodeRow> miscellaneous_rows();
std::span<const OpcodeRow> matrix_move_rows();  // matrix/
std::span<const OpcodeRow> mma_rows();

}  // namespace tessera::cuda_sim
