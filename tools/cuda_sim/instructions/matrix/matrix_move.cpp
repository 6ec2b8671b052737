// PTX ISA, "Warp Level Matrix Instructions": ldmatrix, stmatrix, movmatrix.
//
// A matrix is 8 x 8 values of 16 bits. A fragment has row lane / 4 and two columns from 2 * (lane % 4) on:
// one register of 32 bits, so the 16 bytes of row r are the registers of lanes 4r to 4r + 3.
#include <algorithm>
#include <array>
#include <cstring>

#include "tools/cuda_sim/instructions/matrix/transpose.h"
#include "tools/cuda_sim/instructions/memory/access.h"
#include "tools/cuda_sim/instructions/opcode_rows.h"

namespace tessera::cuda_sim {

namespace {

/// The rows of `elements` matrices in shared memory: lane l has the address of row l % 8 of matrix l / 8.
void reach_rows(Warp& warp, const Instruction& instruction, Access& access, HostPointers& host) {
  access.space = instruction.space;
  access.bytes = 16;
  access.lanes = instruction.elements == 4 ? all_lanes : (LaneMask{1} << 8 * instruction.elements) - 1;
  fill_addresses(warp, instruction, access);
  access_memory(warp, instruction, access, host);
}

template <bool transposes>
void execute_load(Warp& warp, const Instruction& instruction) {
  Access access;
  access.is_read = true;
  HostPointers host;
  reach_rows(warp, instruction, access, host);
  for (size_t m = 0; m < instruction.elements; ++m) {
    Matrix matrix;
    for (size_t row = 0; row < 8; ++row) {
      if (const std::byte* const from = host[8 * m + row])
        std::memcpy(&matrix[row], from, 16);
      else
        matrix[row] = ~MatrixRow{};
    }
    if (transposes) matrix = transposed(matrix);
    std::memcpy(warp.values<uint32_t>(instruction.destination[m]), matrix.data(), sizeof matrix);
  }
}

template <bool transposes>
void execute_store(Warp& warp, const Instruction& instruction) {
  Access access;
  access.is_write = true;
  HostPointers host;
  reach_rows(warp, instruction, access, host);
  for (size_t m = 0; m < instruction.elements; ++m) {
    Matrix matrix;
    std::memcpy(matrix.data(), warp.values<uint32_t>(instruction.source[1 + m]), sizeof matrix);
    if (transposes) matrix = transposed(matrix);
    for (size_t row = 0; row < 8; ++row)
      if (std::byte* const to = host[8 * m + row]) std::memcpy(to, &matrix[row], 16);
  }
}

void execute_transpose(Warp& warp, const Instruction& instruction) {
  Matrix matrix;
  std::memcpy(matrix.data(), warp.values<uint32_t>(instruction.source[0]), sizeof matrix);
  matrix = transposed(matrix);
  std::memcpy(warp.values<uint32_t>(instruction.destination[0]), matrix.data(), sizeof matrix);
}

/// Shape, count and type of ldmatrix and stmatrix; `fragments` is the operand in braces.
void decode_shape(DecodeContext& context, int address_operand, int fragments) {
  allow_memory_modifiers(context, {"sync", "aligned", "m8n8", "x1", "x2", "x4", "trans"});
  expect_operands(context, 2);
  if (!context.has("m8n8") || context.type() != Type::b16) context.unknown("shape");
  decode_address(context, address_operand);
  Instruction& result = context.result();
  result.flow = Flow::whole_warp;
  result.elements = context.has("x4") ? 4 : context.has("x2") ? 2 : 1;
  if (std::max(1, context.vector_size(fragments)) != result.elements) context.unknown("number of matrices");
}

// "ldmatrix.sync.aligned.m8n8.num{.trans}{.shared}.b16 {r, ...}, [address]".
void decode_load(DecodeContext& context) {
  decode_shape(context, 1, 0);
  Instruction& result = context.result();
  result.execute = context.has("trans") ? execute_load<true> : execute_load<false>;
  for (int i = 0; i < result.elements; ++i)
    result.destination[static_cast<size_t>(i)] =
        context.vector_size(0) == 0 ? context.destination(0) : context.destination_element(0, i);
}

// "stmatrix.sync.aligned.m8n8.num{.trans}{.shared}.b16 [address], {r, ...}".
void decode_store(DecodeContext& context) {
  decode_shape(context, 0, 1);
  Instruction& result = context.result();
  result.execute = context.has("trans") ? execute_store<true> : execute_store<false>;
  for (int i = 0; i < result.elements; ++i)
    result.source[static_cast<size_t>(1 + i)] =
        context.vector_size(1) == 0 ? context.source(1, Type::b32) : context.source_element(1, i, Type::b32);
}

// "movmatrix.sync.aligned.m8n8.trans.b16 d, a".
void decode_transpose(DecodeContext& context) {
  allow_modifiers(context, {"sync", "aligned", "m8n8", "trans"});
  if (!context.has("trans") || context.type() != Type::b16) context.unknown("shape");
  decode_same_type(context, 1, Type::b32, execute_transpose);
  context.result().flow = Flow::whole_warp;
}

constexpr std::array rows = {
    OpcodeRow{"ldmatrix", decode_load},
    OpcodeRow{"stmatrix", decode_store},
    OpcodeRow{"movmatrix", decode_transpose},
};

}  // namespace

std::span<const OpcodeRow> matrix_move_rows() {
  return rows;
}

}  // namespace tessera::cuda_sim
