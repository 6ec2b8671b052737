#pragma once  // internal

#include "tensor/cpu/gemm/sharing/thread_cut.h"

namespace tessera::kernels::cpu {

/// What a way of multiplying costs, by which its products are cut among threads.
struct SharedPath {
  const char* name;
  int64_t grain;  ///< multiply-adds from which on a second thread is worth its start
  CutCosts costs;
};

inline constexpr SharedPath
    /// Our f32 kernels: a is read in place or packed, b is packed.
    packed_path{"f32", 1 << 17, {.row_step = 8, .column_step = 16, .a_work = 16, .b_work = 16}},
    /// A library of f32 or f64 packs the rows and columns of each block.
    library_path{"library", 1 << 17, {.row_step = 16, .column_step = 16, .a_work = 32, .b_work = 32}},
    /// Packing b costs a third to a half of a product of some hundred rows, and every part of the
    /// same columns packs them again.
    library_bf16_path{
        "library, bf16", 1 << 18, {.row_step = 32, .column_step = 32, .a_work = 8, .b_work = 128}},
    /// On tiles packing an element takes the time of some hundred multiply-adds.
    tile_path{"bf16 on tiles", 1 << 20, {.row_step = 32, .column_step = 32, .a_work = 64, .b_work = 128}},
    /// On vectors, a in place.
    pair_path{"bf16 on vectors", 1 << 18, {.row_step = 8, .column_step = 16, .a_work = 8, .b_work = 32}},
    /// On vectors, a stored transposed and packed.
    packed_pair_path{
        "bf16 on vectors, a packed", 1 << 18, {.row_step = 8, .column_step = 16, .a_work = 32, .b_work = 32}},
    /// The same where squares of the result are summed, in units of 32 rows.
    pair_squares_path{"bf16 on vectors, with squares",
                      1 << 18,
                      {.row_step = 32, .column_step = 16, .a_work = 32, .b_work = 32}};

}  // namespace tessera::kernels::cpu
