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

/// One value for each chunk of all tensors.
Tensor empty_partials(std::span<const Tensor> tensors) {
  int64_t chunks = 0;
  for (const Tensor& tensor : tensors) chunks += loop.chunks_of(numel_of(tensor));
  return Tensor::empty({chunks}, f64);
}

/// Adds the chunks' sums of powers up, or finds their largest, for each tensor.
void combine(std::span<const Tensor> tensors, double p, const double* partials, double* sum) {
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

}  // namespace

void power_sums(std::span<const Tensor> tensors, double p, const Tensor& sums) {
  const auto numel = [&](int64_t t) { return numel_of(tensors[t]); };
  const Tensor partials = empty_partials(tensors);
  double* const partial = partials.data<double>();
  loop.run(std::ssize(tensors), numel, [&](int64_t t, int64_t begin, int64_t end, int64_t chunk) {
    for (; begin < end; begin += loop.chunk)
      partial[chunk++] = TESSERA_PER_ISA(power_sum)(tensors[t].dtype(), element(tensors[t], begin),
                                                    std::min(loop.chunk, end - begin), p);
  });
  combine(tensors, p, partial, sums.data<double>());
}

void scale_list(std::span<const Tensor> tensors, const Tensor& factor, const Tensor& first_nonfinite,
                const Tensor& squares) {
  const double by = *factor.data<double>();
  const Tensor partials = squares.defined() ? empty_partials(tensors) : Tensor();
  double* const partial = squares.defined() ? partials.data<double>() : nullptr;
  std::atomic<int64_t> first{std::ssize(tensors)};
  loop.run(
      std::ssize(tensors), [&](int64_t t) { return numel_of(tensors[t]); },
      [&](int64_t t, int64_t begin, int64_t end, int64_t chunk) {
        const DType dtype = tensors[t].dtype();
        bool is_finite = true;
        for (; begin < end; begin += loop.chunk, ++chunk) {
          void* const x = element(tensors[t], begin);
          const int64_t n = std::min(loop.chunk, end - begin);
          is_finite &= TESSERA_PER_ISA(scale_block)(dtype, x, n, by);
          if (partial) partial[chunk] = TESSERA_PER_ISA(power_sum)(dtype, x, n, 2.0);
        }
        if (is_finite) return;
        for (int64_t seen = first; t < seen && !first.compare_exchange_weak(seen, t);) {
        }
      });
  *first_nonfinite.data<int64_t>() = first == std::ssize(tensors) ? -1 : first.load();
  if (partial) combine(tensors, 2.0, partial, squares.data<double>());
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
