// One read of x and target in forward, where a sum is never stored as single losses; one read and one write
// in backward.
#include "tensor/cpu/losses/elementwise_loss.h"

#include <algorithm>

#include "tensor/cpu/loops/block_walk.h"
#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/loss_blocks.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t chunk = 2048;      // elements of one partial sum
constexpr int64_t grain_chunks = 8;  // chunks that are worth a thread

DType block_type_of(DType type) {
  return type == f64 ? f64 : f32;
}

/// Values as they are computed in: in place, or widened into `buffer`.
template <class A, class T>
const A* as_computed(const T* values, int64_t n, A* buffer) {
  if constexpr (std::is_same_v<A, T>) {
    return values;
  } else {
    widen_row(values, 1, n, buffer);
    return buffer;
  }
}

}  // namespace

void elementwise_losses(const ElementwiseLoss& f, const Tensor& x, const Tensor& target, const Tensor& out) {
  const DType type = block_type_of(x.dtype());
  const LossBlocks loops = TESSERA_PER_ISA(loss_blocks)(f.kind, type);
  walk_blocks(out.shape(), Operand::of(out, type), {Operand::of(x, type), Operand::of(target, type)},
              [&](const Block& block) { loops.values(f.p, block.in[0], block.in[1], block.out, block.n); });
}

void elementwise_loss_sum(const ElementwiseLoss& f, double scale, const Tensor& x, const Tensor& target,
                          const Tensor& out) {
  const int64_t n = x.numel(), chunks = (n + chunk - 1) / chunk;
  const LossBlocks loops = TESSERA_PER_ISA(loss_blocks)(f.kind, block_type_of(x.dtype()));
  const Scratch<double> partial(chunks);
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    using A = accumulator_of<T>;
    const T* const values = static_cast<const T*>(x.raw_data());
    const T* const targets = static_cast<const T*>(target.raw_data());
    parallel_for(chunks, grain_chunks, [&](int64_t begin, int64_t end) {
      const Scratch<A> buffer(std::is_same_v<A, T> ? 0 : 2 * chunk);
      for (int64_t c = begin; c < end; ++c) {
        const int64_t first = c * chunk, count = std::min(chunk, n - first);
        partial.get()[c] = loops.sum(f.p, as_computed<A>(values + first, count, buffer.get()),
                                     as_computed<A>(targets + first, count, buffer.get() + chunk), count);
      }
    });
    double total = 0;
    for (int64_t c = 0; c < chunks; ++c) total += partial.get()[c];
    *static_cast<T*>(out.raw_data()) = narrow<T>(static_cast<A>(total * scale));
  });
}

void elementwise_loss_backward(const ElementwiseLoss& f, double scale, const Tensor& dloss, const Tensor& x,
                               const Tensor& target, const Tensor& dx) {
  const DType type = block_type_of(x.dtype());
  const LossBlocks loops = TESSERA_PER_ISA(loss_blocks)(f.kind, type);
  walk_blocks(dx.shape(), Operand::of(dx, type),
              {Operand::of(x, type), Operand::of(target, type), Operand::of(dloss, type, true)},
              [&](const Block& block) {
                const auto loop = block.scalar[2] ? loops.shared_gradient : loops.gradients;
                loop(f.p, scale, block.in[0], block.in[1], block.in[2], block.out, block.n);
              });
}

}  // namespace tessera::kernels::cpu
