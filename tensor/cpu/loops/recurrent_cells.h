#pragma once  // internal

#include <cstdint>

#include "tensor/arguments/recurrence.h"
#include "tensor/cpu/isa.h"
#include "tensor/types/dtype.h"

namespace tessera::kernels::cpu {

/// The elementwise half of a step of a recurrent layer: `rows` sequences by `units` hidden features. T is the
/// dtype of the tensors, A that of computation. Gate g of a row is g H elements after its first one.
struct CellRows {
  int64_t rows, units;
  int64_t hidden;       ///< H
  void* gates;          ///< T: the products of the inputs; overwritten by the gates' values
  int64_t gates_row;    ///< elements between rows
  const void* product;  ///< A: the products of h, gate g at g `product_gate`
  int64_t product_row, product_gate;
  const void* bias;         ///< A: added to the inputs' products, gates H elements apart
  const void* hidden_bias;  ///< A: GRU's b_hn
  const void* state;        ///< LSTM: c of the step before, A; GRU: h of the step before, T
  int64_t state_row;
  void* extra;  ///< A, rows H apart: LSTM's c; GRU's W_hn h + b_hn
  void* out;    ///< T: h, or what is projected to h
  int64_t out_row;
  void* wide_out;  ///< A: the same, as rounded to T; null: not written
  int64_t wide_out_row;
};

/// The gradients of such a half step.
struct CellGradientRows {
  int64_t rows, units;
  int64_t hidden;  ///< H
  const void* dy;  ///< T: the gradient of this step's result; null: none
  int64_t dy_row;
  void* dh;  ///< A: the gradient of h by later steps; GRU writes the part that skips the product
  int64_t dh_row;
  const void* gates;  ///< T: the gates' values; of RNN its result
  int64_t gates_row;
  void* dgates;  ///< T, gates as `gates`, rows G H apart: the gradients of their arguments; may be `gates`
  void* wide_dgates;  ///< A: the same, as rounded to T; null: not written
  int64_t dgates_row;
  const void* state;  ///< as CellRows::state
  int64_t state_row;
  const void* extra;  ///< as CellRows::extra
  void* dextra;       ///< A, rows H apart: GRU's gradient of W_hn h + b_hn; may be `extra`
  void* dc;           ///< A, rows H apart: LSTM's gradient of c, by later steps; then that of c before
};

/// The two passes of a cell.
struct CellKernels {
  void (*forward)(const CellRows& rows);
  void (*backward)(const CellGradientRows& rows);
};

TESSERA_DECLARE_PER_ISA(CellKernels recurrent_cell(RecurrentCell cell, DType dtype);)

}  // namespace tessera::kernels::cpu
