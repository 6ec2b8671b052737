#include "tensor/cuda/elementwise/launch_loop.h"

#include <algorithm>
#include <cstddef>

#include "tensor/cuda/runtime/launch.h"
#include "tensor/strided_loop.h"

namespace tessera::kernels::cuda {
namespace {

static_assert(max_loop_dims == Shape::max_ndim);
static_assert(offsetof(LoopArguments<1>, operands) == offsetof(LoopArguments<max_loop_operands>, operands));

/// A launch's operands; a loop with fewer of them has the first one in the places of the rest.
struct Launch {
  const char* name;
  const LoopKernel& kernel;
  const void* f;
  Device device;
  int operands;
  int64_t element_bytes[max_loop_operands];
};
using Loop = StridedLoop<max_loop_operands>;

/// Whether packs of operand k are aligned for every row of the loop.
bool packs_fit(const Launch& launch, const Loop& loop, int k, const void* data) {
  const int inner = loop.ndim - 1, pack = launch.kernel.pack;
  if (loop.strides[k][inner] == 0) return k >= launch.kernel.results;
  if (loop.strides[k][inner] != 1) return false;
  if (reinterpret_cast<uintptr_t>(data) % static_cast<size_t>(launch.element_bytes[k] * pack) != 0)
    return false;
  for (int d = 0; d < inner; ++d)
    if (loop.strides[k][d] % pack != 0) return false;
  return true;
}

/// Halves the loop along its widest dimension; gives the bytes from the low half to the high one.
void halve(const Launch& launch, Loop& low, Loop& high, int64_t (&skipped)[max_loop_operands]) {
  const int widest = static_cast<int>(std::max_element(low.extents, low.extents + low.ndim) - low.extents);
  low.extents[widest] /= 2;
  high.extents[widest] -= low.extents[widest];
  for (int k = 0; k < launch.operands; ++k)
    skipped[k] = low.extents[widest] * low.strides[k][widest] * launch.element_bytes[k];
}

void run(const Launch& launched, const Loop& loop, char* const (&data)[max_loop_operands]) {
  int64_t count = 1;
  for (int d = 0; d < loop.ndim; ++d) count *= loop.extents[d];
  if (count == 0) return;
  if (count >= int64_t{1} << 31) {
    Loop low = loop, high = loop;
    int64_t skipped[max_loop_operands] = {};
    halve(launched, low, high, skipped);
    run(launched, low, data);
    char* rest[max_loop_operands];
    for (int k = 0; k < max_loop_operands; ++k) rest[k] = data[k] + skipped[k];
    return run(launched, high, rest);
  }
  LoopArguments<max_loop_operands> arguments{};
  arguments.count = static_cast<uint32_t>(count);
  arguments.ndim = loop.ndim;
  arguments.packed = loop.ndim == 1 || loop.inner() % launched.kernel.pack == 0;
  for (int d = 0; d < loop.ndim; ++d) arguments.extents[d] = static_cast<uint32_t>(loop.extents[d]);
  for (int k = 0; k < launched.operands; ++k) {
    arguments.operands[k].data = data[k];
    for (int d = 0; d < loop.ndim; ++d)
      arguments.operands[k].strides[d] = loop.strides[k][d] * launched.element_bytes[k];
    arguments.packed = arguments.packed && packs_fit(launched, loop, k, data[k]);
  }
  const int64_t each = arguments.packed ? launched.kernel.pack : 1;
  void* passed[] = {const_cast<void*>(launched.f), &arguments};
  launch(launched.name, launched.device, (count + each - 1) / each,
         [&](dim3 grid, dim3 block, cudaStream_t stream) {
           cuda_runtime::check(cudaLaunchKernel(launched.kernel.function, grid, block, passed, 0, stream),
                               launched.name);
         });
}

}  // namespace

void launch_loop(const char* name, const LoopKernel& kernel, const void* f, Device device, const Shape& shape,
                 const LoopView* operands, int count) {
  Launch launched{name, kernel, f, device, count, {}};
  std::array<const Strides*, max_loop_operands> strides;
  strides.fill(operands[0].strides);
  char* data[max_loop_operands] = {};
  for (int k = 0; k < count; ++k) {
    launched.element_bytes[k] = operands[k].element_bytes;
    strides[k] = operands[k].strides;
    data[k] = static_cast<char*>(operands[k].data);
  }
  run(launched, Loop(shape, strides), data);
}

void launch_loop(const char* name, const LoopKernel& kernel, const void* f,
                 std::initializer_list<const Tensor*> operands) {
  const Tensor& out = **operands.begin();
  if (out.numel() == 0) return;
  LoopView views[max_loop_operands];
  int count = 0;
  for (const Tensor* x : operands) views[count++] = {x->raw_data(), size_of(x->dtype()), &x->strides()};
  launch_loop(name, kernel, f, out.device(), out.shape(), views, count);
}

}  // namespace tessera::kernels::cuda
