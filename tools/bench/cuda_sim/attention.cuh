// Causal attention, forward: cp.async in two stages, ldmatrix, mma.m16n8k16 of bf16, and the online softmax
// of Milakov and Gimelshein (2018), as in Dao, "FlashAttention-2" (2023).
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "tools/bench/cuda_sim/faults.h"
#include "tools/bench/cuda_sim/sums.cuh"

namespace tessera::sample_kernels {

inline constexpr int head_size = 64, attention_rows = 64, attention_threads = 128;
inline constexpr int tile = attention_rows * head_size;  ///< elements of 64 rows
inline constexpr size_t attention_shared_bytes = 5 * tile * sizeof(__nv_bfloat16);

/// The element of `row` at which its 8 elements number `eighth` begin: mixed, so that ldmatrix has no bank
/// conflicts.
__device__ inline int at(int row, int eighth) {
  return row * head_size + (eighth ^ row % 8) * 8;
}

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Begins to copy 64 rows; rows past the last one are copies of it.
__device__ inline void begin_copy(__nv_bfloat16* to, const __nv_bfloat16* from, int first, int rows) {
  for (int i = threadIdx.x; i < attention_rows * 8; i += attention_threads) {
    const int row = i / 8, eighth = i % 8, source = min(first + row, rows - 1);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to + at(row, eighth))),
                 "l"(from + static_cast<size_t>(source) * head_size + eighth * 8)
                 : "memory");
  }
}

__device__ inline void end_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int newest>
__device__ void wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(newest) : "memory");
}

template <bool transposes>
__device__ void load_matrices(uint32_t (&out)[4], const __nv_bfloat16* row) {
  const uint32_t address = shared_address(row);
  if constexpr (transposes)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(address)
                 : "memory");
}

/// c += a b.
__device__ inline void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline uint32_t pack(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

/// What a thread has of 16 queries: rows lane / 4 and 8 below it, 2 columns of each 8 from 2 (lane % 4) on.
struct Queries {
  uint32_t query[4][4];
  float output[8][4] = {};
  float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {};
};

/// score = Q K^T for 64 keys.
__device__ inline void multiply_keys(float (&score)[8][4], const Queries& queries,
                                     const __nv_bfloat16* keys) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      uint32_t b[4];
      load_matrices<false>(b, keys + at(n * 16 + lane / 16 * 8 + lane % 8, k * 2 + lane / 8 % 2));
      multiply(score[2 * n], queries.query[k], b[0], b[1]);
      multiply(score[2 * n + 1], queries.query[k], b[2], b[3]);
    }
  }
}

/// The scores become weights relative to the largest one so far; what was summed is scaled to it.
__device__ inline void exponentiate(float (&score)[8][4], Queries& queries, int first_row, int first_key,
                                    float scale_log2) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + lane / 4 + 8 * half;
    float largest = queries.largest[half];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      float& value = score[i / 2][half * 2 + i % 2];
      const int key = first_key + i / 2 * 8 + lane % 4 * 2 + i % 2;
      value = key <= row ? value * scale_log2 : -INFINITY;
      largest = fmaxf(largest, value);
    }
    largest = fmaxf(largest, __shfl_xor_sync(whole_warp, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(whole_warp, largest, 2));
    const float shrink = exp2f(queries.largest[half] - largest);
    queries.largest[half] = largest;
    queries.sum[half] *= shrink;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      float& value = score[i / 2][half * 2 + i % 2];
      value = exp2f(value - largest);
      queries.sum[half] += value;
      queries.output[i / 2][half * 2 + i % 2] *= shrink;
    }
  }
}

/// output += weights V.
__device__ inline void multiply_values(Queries& queries, const float (&weight)[8][4],
                                       const __nv_bfloat16* values) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const uint32_t a[4] = {pack(weight[2 * k][0], weight[2 * k][1]), pack(weight[2 * k][2], weight[2 * k][3]),
                           pack(weight[2 * k + 1][0], weight[2 * k + 1][1]),
                           pack(weight[2 * k + 1][2], weight[2 * k + 1][3])};
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      uint32_t b[4];
      load_matrices<true>(b, values + at(k * 16 + lane % 16, n * 2 + lane / 16));
      multiply(queries.output[2 * n], a, b[0], b[1]);
      multiply(queries.output[2 * n + 1], a, b[2], b[3]);
    }
  }
}

__device__ inline void write_output(const Queries& queries, __nv_bfloat16* output, float* log_sum,
                                    int first_row, int rows) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = queries.sum[half];
    sum += __shfl_xor_sync(whole_warp, sum, 1);
    sum += __shfl_xor_sync(whole_warp, sum, 2);
    const int row = first_row + lane / 4 + 8 * half;
    if (row >= rows) continue;
#pragma unroll
    for (int n = 0; n < 8; ++n)
      *reinterpret_cast<uint32_t*>(output + static_cast<size_t>(row) * head_size + n * 8 + lane % 4 * 2) =
          pack(queries.output[n][half * 2] / sum, queries.output[n][half * 2 + 1] / sum);
    if (lane % 4 == 0) log_sum[row] = (queries.largest[half] + log2f(sum)) * 0.6931471805599453f;
  }
}

/// A block for 64 queries of a head: blockIdx.x says which, blockIdx.y the head. [heads, rows, 64] each.
template <Fault fault = Fault::none>
__global__ void __launch_bounds__(attention_threads)
    attention(const __nv_bfloat16* query, const __nv_bfloat16* key, const __nv_bfloat16* value,
              __nv_bfloat16* output, float* log_sum, int rows, float scale_log2) {
  extern __shared__ __align__(16) __nv_bfloat16 shared[];
  __nv_bfloat16 *const keys = shared + tile, *const values = shared + 3 * tile;
  const size_t head = static_cast<size_t>(blockIdx.y) * rows;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = blockIdx.x * attention_rows;
  const int steps = (min(first + attention_rows, rows) + attention_rows - 1) / attention_rows;
  key += head * head_size;
  value += head * head_size;
  begin_copy(shared, query + head * head_size, first, rows);
  begin_copy(keys, key, 0, rows);
  begin_copy(values, value, 0, rows);
  end_group();
  Queries queries;
  for (int step = 0; step < steps; ++step) {
    const int stage = step % 2 * tile, next = (step + 1) % 2 * tile;
    if (step + 1 < steps) {
      begin_copy(keys + next, key, (step + 1) * attention_rows, rows);
      begin_copy(values + next, value, (step + 1) * attention_rows, rows);
      end_group();
      wait_for_groups<fault == Fault::attention_without_wait ? 2 : 1>();
    } else {
      wait_for_groups<0>();
    }
    __syncthreads();
    if (step == 0)
      for (int k = 0; k < 4; ++k)
        load_matrices<false>(queries.query[k], shared + at(warp * 16 + lane % 16, k * 2 + lane / 16));
    float score[8][4] = {};
    multiply_keys(score, queries, keys + stage);
    exponentiate(score, queries, first + warp * 16, step * attention_rows, scale_log2);
    multiply_values(queries, score, values + stage);
    if constexpr (fault != Fault::attention_without_barrier) __syncthreads();
  }
  write_output(queries, output + head * head_size, log_sum + head, first + warp * 16, rows);
}

}  // namespace tessera::sample_kernels
