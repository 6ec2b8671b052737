#include "tensor/profile/machine_rates.h"

#include <algorithm>

#include "tensor/memory/account.h"
#include "tensor/memory/cpu_allocator.h"
#include "tensor/ops/matmul.h"
#include "tensor/profile/span.h"
#include "tensor/tensor.h"

namespace tessera {
namespace {

/// The shortest call of `work`, in seconds, of at least five calls in at least 20 ms.
template <class Work>
double shortest_seconds(Work work) {
  work();  // warm-up: pages, primitives, threads
  double best = 1e9;
  const int64_t until = profile_clock() + 20'000'000;
  for (int i = 0; i < 5 || profile_clock() < until; ++i) {
    const int64_t began = profile_clock();
    work();
    best = std::min(best, static_cast<double>(profile_clock() - began) * 1e-9);
  }
  return best;
}

}  // namespace

double measured_product_rate(DType dtype) {
  constexpr int64_t n = 768;
  const AccountScope scope(make_intrusive<MemoryAccount>());
  double seconds = 0;
  {
    const Tensor a = Tensor::zeros({n, n}, dtype), b = Tensor::zeros({n, n}, dtype),
                 out = Tensor::empty({n, n}, dtype);
    seconds = shortest_seconds([&] { ops::matmul_out(out, a, b); });
  }
  cpu_empty_cache();
  return 2.0 * n * n * n / seconds;
}

double measured_copy_rate(int64_t footprint) {
  const int64_t n = std::max<int64_t>(footprint / 8, 1);  // f32: one element read, one written
  const AccountScope scope(make_intrusive<MemoryAccount>());
  double seconds = 0;
  {
    const Tensor from = Tensor::zeros({n}, f32), to = Tensor::empty({n}, f32);
    seconds = shortest_seconds([&] { to.copy_from(from); });
  }
  cpu_empty_cache();
  return 8.0 * static_cast<double>(n) / seconds;
}

}  // namespace tessera
