// A warp draws from a row. Its lanes read 32 neighbouring weights at a time, and add them up in the order of
// the CPU: each lane has the same sum.
#include "tensor/cuda/creation/multinomial.h"

#include "tensor/cuda/runtime/late_check.cuh"

namespace tessera::kernels::cuda {
namespace {

using cuda_runtime::LateCheck;

constexpr int lanes = 32;

struct WrongWeight {
  const double* weights;
  __device__ bool operator()(int64_t i) const { return !(weights[i] >= 0 && isfinite(weights[i])); }
  __device__ int64_t value(int64_t i) const { return __double_as_longlong(weights[i]); }
};

/// Of rows: whether there are too few positive weights.
struct TooFewPositive {
  const double* weights;
  int64_t classes, least;
  __device__ bool operator()(int64_t row) const { return value(row) < least; }
  __device__ int64_t value(int64_t row) const {
    int64_t positive = 0;
    for (int64_t k = 0; k < classes; ++k) positive += weights[row * classes + k] > 0;
    return positive;
  }
};

/// Calls next(index, weight) in order while it returns true.
template <class Next>
__device__ void for_each_weight(const double* weights, int64_t classes, const Next& next) {
  bool goes_on = true;
  for (int64_t first = 0; goes_on && first < classes; first += lanes) {
    const int64_t mine = first + threadIdx.x;
    const double weight = mine < classes ? weights[mine] : 0.0;
    const int64_t left = classes - first;
    for (int lane = 0; goes_on && lane < lanes && lane < left; ++lane)
      goes_on = next(first + lane, __shfl_sync(0xffffffffu, weight, lane));
  }
}

__global__ void __launch_bounds__(lanes) draw_kernel(double* weights, const double* u, int64_t* out,
                                                     int64_t classes, int64_t count, bool replacement) {
  double* const row = weights + blockIdx.x * classes;
  const auto total = [&] {
    double sum = 0;
    for_each_weight(row, classes, [&](int64_t, double weight) {
      sum += weight;
      return true;
    });
    return sum;
  };
  double all = total();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = blockIdx.x * count + i;
    const double target = u[at] * all;
    double sum = 0;
    int64_t chosen = -1;
    for_each_weight(row, classes, [&](int64_t k, double weight) {
      sum += weight;
      if (weight > 0) chosen = k;
      return chosen < 0 || sum <= target;
    });
    __syncwarp();  // all lanes have read their weights
    if (threadIdx.x == 0) {
      out[at] = chosen < 0 ? 0 : chosen;
      if (!replacement && chosen >= 0) row[chosen] = 0;
    }
    __syncwarp();
    if (!replacement) all = total();
  }
}

}  // namespace

void multinomial(const Tensor& weights, const Tensor& u, bool replacement, const Tensor& out) {
  const Device device = weights.device();
  const int64_t classes = weights.size(-1), count = out.size(-1), rows = out.numel() / count;
  const int64_t least = replacement ? 1 : count;
  auto* const from = static_cast<double*>(weights.raw_data());
  check_late({.where = "multinomial", .shape = weights.shape(), .limit = 0, .kind = LateCheck::Kind::weights},
             device, weights.numel(), WrongWeight{from});
  check_late(
      {.where = "multinomial", .shape = {rows}, .limit = least, .kind = LateCheck::Kind::positive_weights},
      device, rows, TooFewPositive{from, classes, least});
  const cuda_runtime::DeviceGuard guard(device);
  draw_kernel<<<static_cast<unsigned>(rows), lanes, 0, cuda_runtime::current_stream(device)>>>(
      from, static_cast<const double*>(u.raw_data()), static_cast<int64_t*>(out.raw_data()), classes, count,
      replacement);
  cuda_runtime::check_launch("multinomial");
}

}  // namespace tessera::kernels::cuda
