#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/isa.h"
#include "tensor/elementwise/op_lists.h"
#include "tensor/types/dtype.h"

/// The inner loops of elementwise operations, on one contiguous block of elements of one type. Their sources
/// are in tensor/cpu/isa, compiled once per instruction set; tensor/cpu/elementwise/elementwise.cpp cuts
/// tensors into such blocks.
namespace tessera::kernels::cpu {

/// y[i] = f(x[i]) for i < n. x and y may be the same.
using UnaryBlock = void (*)(const void* x, void* y, int64_t n);

/// y[i] = f(a[i], b[i]); y may be a or b.
using BinaryBlock = void (*)(const void* a, const void* b, void* y, int64_t n);

/// The same operation for two arrays, and for an array and one value that is broadcast.
struct BinaryBlocks {
  BinaryBlock arrays = nullptr;
  BinaryBlock scalar_first = nullptr;
  BinaryBlock scalar_second = nullptr;
};

/// y[i] = f(a[i], b[i], c[i], factor); y may be a, b or c.
using TernaryBlock = void (*)(const void* a, const void* b, const void* c, double factor, void* y, int64_t n);

// clang-format off
TESSERA_DECLARE_PER_ISA(
  // Each returns null where the operation does not take the type. `type` is one of f64, f32, i64, i32, u8;
  // results of predicates and comparisons are bytes 0 and 1.
  UnaryBlock unary_block(UnaryOp op, DType type);
  BinaryBlocks binary_blocks(BinaryOp op, DType type);
  TernaryBlock ternary_block(TernaryOp op, DType type);
  TernaryBlock where_block(int64_t element_size);
)
// clang-format on

}  // namespace tessera::kernels::cpu
