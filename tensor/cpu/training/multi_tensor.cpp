#include "tensor/cpu/training/multi_tensor.h"

#include <atomic>
#include <cstring>
#include <limits>

#include "tensor/cpu/isa/multi_tensor.h"
#include "tensor/cpu/loops/chunked_loop.h"

namespace tessera::kernels::cpu {
namespace {

constexpr ChunkedLoop loop{.chunk = 4096, .grain = 8};

int64_t numel_of(const Tensor& tensor) {
  return tensor.defined() ? tensor.numel() : 0;
}

void* element(const Tensor& tensor, int64_t i) {
  return static_cast<char*>(tensor.raw_data()) + i * size_of(tensor.dtype());
}

}  // namespace

void power_sums(std::span<const Tensor> tensors, double p, const Tensor& sums) {
  const auto numel = [&](int64_t t) { return numel_of(tensors[t]); };
  int64_t blocks = 0;
  for (const Tensor& tensor : tensors) blocks += loop.chunks_of(numel_of(tensor));
  const Tensor partial = Tensor::empty({blocks}, f64);
  double* partials = partial.data<double>();
  loop.run(std::ssize(tensors), numel, [&](int64_t t, int64_t begin, int64_t end, int64_t block) {
    for (; begin < end; begin += loop.chunk)
      partials[block++] = TESSERA_PER_ISA(power_sum)(tensors[t].dtype(), element(tensors[t], begin),
                                                     std::min(loop.chunk, end - begin), p);
  });
  double* sum = sums.data<double>();
  for (const Tensor& tensor : tensors) {
    double total = 0.0;
    for (int64_t b = loop.chunks_of(numel_of(tensor)); b > 0; --b, ++partials)
      if (p != std::numeric_limits<double>::infinity())
        total += *partials;
      else if (!(total >= *partials) && total == total)
        total = *partials;
    *sum++ = total;
  }
}

void scale_list(std::span<const Tensor> tensors, const Tensor& factor, const Tensor& first_nonfinite) {
  const double by = *factor.data<double>();
  std::atomic<int64_t> first{std::ssize(tensors)};
  loop.run(
      std::ssize(tensors), [&](int64_t t) { return numel_of(tensors[t]); },
      [&](int64_t t, int64_t begin, int64_t end, int64_t) {
        if (TESSERA_PER_ISA(scale_block)(tensors[t].dtype(), element(tensors[t], begin), end - begin, by))
          return;
        for (int64_t seen = first; t < seen && !first.compare_exchange_weak(seen, t);) {
        }
      });
  *first_nonfinite.data<int64_t>() = first == std::ssize(tensors) ? -1 : first.load();
}

void zero_list(std::span<const Tensor> tensors) {
  loop.run(
      std::ssize(tensors), [&](int64_t t) { return numel_of(tensors[t]); },
      [&](int64_t t, int64_t begin, int64_t end, int64_t) {
        std::memset(element(tensors[t], begin), 0, (end - begin) * size_of(tensors[t].dtype()));
      });
}

void clamp_list(std::span<const Tensor> tensors, double limit) {
  loop.run(
      std::ssize(tensors), [&](int64_t t) { return numel_of(tensors[t]); },
      [&](int64_t t, int64_t begin, int64_t end, int64_t) {
        TESSERA_PER_ISA(clamp_block)(tensors[t].dtype(), element(tensors[t], begin), end - begin, limit);
      });
}

}  // namespace tessera::kernels::cpu
