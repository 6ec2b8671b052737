#include "tensor/cpu/elementwise/elementwise.h"

#include "tensor/cpu/loops/block_walk.h"
#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/elementwise_blocks.h"
#include "tensor/cpu/loops/value_and_gradient.h"

namespace tessera::kernels::cpu {
namespace {

bool waits_for_memory(BinaryOp op) {
  return op == BinaryOp::add || op == BinaryOp::sub || op == BinaryOp::mul || op == BinaryOp::relu_backward;
}

/// The type in which inner loops compute values of `type`.
DType block_type_of(DType type) {
  return type == bf16 || type == f16 ? f32 : type == boolean ? u8 : type;
}

void require_kernel(bool found, DType type) {
  require<DTypeError>(found, "elementwise operation: no kernel for ", type);
}

void walk_binary(const BinaryBlocks& blocks, const Shape& shape, const Operand& out, const Operand& a,
                 const Operand& b) {
  walk_blocks(shape, out, {a, b}, [&](const Block& block) {
    const BinaryBlock kernel = block.scalar[0]   ? blocks.scalar_first
                               : block.scalar[1] ? blocks.scalar_second
                                                 : blocks.arrays;
    kernel(block.in[0], block.in[1], block.out, block.n);
  });
}

}  // namespace

void unary(UnaryOp op, DType type, const Tensor& x, const Tensor& out) {
  if (const UnaryBlock direct = TESSERA_PER_ISA_BF16(direct_unary_block)(op, type);
      direct && x.dtype() == type && out.dtype() == type)
    return walk_blocks(out.shape(), Operand::of(out, type), {Operand::of(x, type)},
                       [&](const Block& block) { direct(block.in[0], block.out, block.n); });
  // Predicates such as isfinite test the value as stored: f64 stays f64.
  const DType compute = block_type_of(type);
  const UnaryBlock kernel = TESSERA_PER_ISA(unary_block)(op, compute);
  require_kernel(kernel != nullptr, type);
  walk_blocks(out.shape(), Operand::of(out, is_predicate(op) ? u8 : compute), {Operand::of(x, compute)},
              [&](const Block& block) { kernel(block.in[0], block.out, block.n); });
}

void binary(BinaryOp op, DType type, const Tensor& a, const Tensor& b, const Tensor& out) {
  const DType compute = block_type_of(type);
  const BinaryBlocks blocks = TESSERA_PER_ISA(binary_blocks)(op, compute);
  require_kernel(blocks.arrays != nullptr, type);
  // When both are broadcast along the innermost dimension, `a` is gathered into a block.
  Operand result = Operand::of(out, is_comparison(op) ? u8 : compute);
  result.waits_for_memory = waits_for_memory(op);
  walk_binary(blocks, out.shape(), result, Operand::of(a, compute, false), Operand::of(b, compute, true));
}

void binary_scalar(BinaryOp op, DType type, const Tensor& x, const Scalar& scalar, bool scalar_first,
                   const Tensor& out) {
  const DType compute = block_type_of(type);
  const BinaryBlocks blocks = TESSERA_PER_ISA(binary_blocks)(op, compute);
  require_kernel(blocks.arrays != nullptr, type);
  alignas(8) char element[8];
  scalar.write(type == boolean ? boolean : compute, element, "elementwise operation");
  const Operand constant = {element, compute, Strides::filled(out.ndim(), 0), compute, true};
  Operand result = Operand::of(out, is_comparison(op) ? u8 : compute);
  result.waits_for_memory = waits_for_memory(op);
  const Operand tensor = Operand::of(x, compute);
  walk_binary(blocks, out.shape(), result, scalar_first ? constant : tensor,
              scalar_first ? tensor : constant);
}

void ternary(TernaryOp op, DType type, const Tensor& a, const Tensor& b, const Tensor& c, double factor,
             const Tensor& out) {
  const DType compute = block_type_of(type);
  const TernaryBlock kernel = TESSERA_PER_ISA(ternary_block)(op, compute);
  require_kernel(kernel != nullptr, type);
  walk_blocks(
      out.shape(), Operand::of(out, compute),
      {Operand::of(a, compute), Operand::of(b, compute), Operand::of(c, compute)},
      [&](const Block& block) { kernel(block.in[0], block.in[1], block.in[2], factor, block.out, block.n); });
}

void where(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& out) {
  const TernaryBlock kernel = TESSERA_PER_ISA(where_block)(size_of(out.dtype()));
  const DType type = out.dtype();
  walk_blocks(
      out.shape(), Operand::of_fast(out, type),
      {Operand::of(condition, u8), Operand::of(a, type), Operand::of(b, type)},
      [&](const Block& block) { kernel(block.in[0], block.in[1], block.in[2], 0.0, block.out, block.n); });
}

void cast(const Tensor& x, const Tensor& out) {
  const UnaryBlock kernel = TESSERA_PER_ISA(convert_block)(x.dtype(), out.dtype());
  walk_blocks(out.shape(), Operand::of_fast(out, out.dtype()), {Operand::of(x, x.dtype())},
              [&](const Block& block) { kernel(block.in[0], block.out, block.n); });
}

void fill(const Tensor& out, const Scalar& value) {
  alignas(8) char element[8];
  value.write(out.dtype(), element, "fill");
  const DType type = out.dtype();
  const UnaryBlock copy = TESSERA_PER_ISA(convert_block)(type, type);
  const Operand constant = {element, type, Strides::filled(out.ndim(), 0), type};
  walk_blocks(out.shape(), Operand::of_fast(out, type), {constant},
              [&](const Block& block) { copy(block.in[0], block.out, block.n); });
}

}  // namespace tessera::kernels::cpu
