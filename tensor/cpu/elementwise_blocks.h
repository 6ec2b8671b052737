#pragma once

#include <cstdint>

#include "tensor/cpu/isa.h"
#include "tensor/elementwise/op_lists.h"
#include "tensor/types/dtype.h"

/// The inner loops of elementwise operations: one contiguous block of elements, one type. Sources in
/// tensor/cpu/isa, compiled once per instruction set; tensor/cpu/elementwise.cpp brings any tensor into this
/// form.
namespace tessera::kernels::cpu {

/// y[i] = f(x[i]) for i < n. x and y may be the same.
using UnaryBlock = void (*)(const void* x, void* y, int64_t n);

/// y[i] = f(a[i], b[i]); y may be a or b.
using BinaryBlock = void (*)(const void* a, const void* b, void* y, int64_t n);

/// The same operation for two arrays, and with one number standing for a whole operand.
struct BinaryBlocks {
  BinaryBlock arrays = nullptr;
  BinaryBlock scalar_first = nullptr;
  BinaryBlock scalar_second = nullptr;
};

/// y[i] = f(a[i], b[i], c[i], factor); y may be any of them.
using TernaryBlock = void (*)(const void* a, const void* b, const void* c, double factor, void* y, int64_t n);

/// y[i] = f(x[i]) and dx[i] = f'(x[i]) dy[i]; dx may be dy.
using GradientBlock = void (*)(const void* x, const void* dy, void* y, void* dx, int64_t n);

// Each returns null where the operation does not take the type. `type` is one of f64, f32, i64, i32, u8;
// results of predicates and comparisons are bytes 0 and 1.
TESSERA_DECLARE_PER_ISA(
    UnaryBlock unary_block(UnaryOp op, DType type); UnaryBlock unary_block_f32(UnaryOp op);
    UnaryBlock unary_block_f64(UnaryOp op); BinaryBlocks binary_blocks(BinaryOp op, DType type);
    BinaryBlocks binary_blocks_f32(BinaryOp op); BinaryBlocks binary_blocks_f64(BinaryOp op);
    TernaryBlock ternary_block(TernaryOp op, DType type); GradientBlock gelu_gradient_block(DType type);
    // For bf16 and f16, of the functions that are worth a loop without conversions to f32 around it.
    UnaryBlock half_unary_block(UnaryOp op, DType type);
    // gelu_gradient_block takes bf16 and f16 too.
    UnaryBlock convert_block(DType from, DType to); TernaryBlock where_block(int64_t element_size);)

}  // namespace tessera::kernels::cpu
