// Kernels flush denormals; the thread that calls them keeps its own setting.
#include <doctest/doctest.h>

#include <thread>

#include "tensor/cpu/combine_sources.h"
#include "tensor/ops/creation/random.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/layers/attention.h"
#include "tensor/ops/layers/loss.h"
#include "tensor/ops/layers/normalization.h"
#include "tensor/ops/layers/softmax.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/reduction.h"
#include "tensor/ops/training/optimizer_update.h"
#include "tests/tensor/reference.h"

using namespace tessera;
using namespace tessera::reference;

namespace {

/// Whether this thread computes denormals, and reads them.
bool keeps_denormals() {
  volatile float small = 0x1p-126f, denormal = __builtin_bit_cast(float, uint32_t{0x00400000});
  return small * 0.5f != 0.0f && denormal * 2.0f != 0.0f;
}

bool flushes_denormals() {
  volatile float small = 0x1p-126f, denormal = __builtin_bit_cast(float, uint32_t{0x00400000});
  return small * 0.5f == 0.0f && denormal * 2.0f == 0.0f;
}

/// Runs `check` in a thread that has called no kernel, with `threads` computing threads.
void run_in_new_thread(int threads, const std::function<void()>& check) {
  std::thread([&] {
    set_num_threads(threads);
    check();
  }).join();
}

/// Every element 2^-127, which f32 holds as a denormal.
Tensor denormals(const Shape& shape) {
  const Tensor bits = filled(shape, i32, [](int64_t) { return 0x00400000; });
  return Tensor::over(bits.storage(), f32, shape, bits.strides());
}

bool all_zero(const Tensor& x) {
  for (double value : elements(x))
    if (value != 0) return false;
  return true;
}

}  // namespace

TEST_CASE("flush denormals: no operation changes the calling thread's arithmetic") {
  for (int threads : {1, 3})
    run_in_new_thread(threads, [] {
      REQUIRE(keeps_denormals());
      const Tensor x = filled({64, 65}, f32, scattered), y = filled({64, 65}, f32, scattered);
      const Tensor targets = filled({64}, i64, [](int64_t i) { return static_cast<double>(i % 65); });
      const Tensor big = filled({1 << 18}, f32, scattered);
      ops::add(x, y), ops::mul_(x, 2), ops::exp(big), ops::cast(big, bf16);
      CHECK(keeps_denormals());
      ops::sum(big), ops::var(x, {1}), ops::softmax(x);
      CHECK(keeps_denormals());
      for (MatmulBackend backend : {MatmulBackend::automatic, MatmulBackend::eigen}) {
        set_matmul_backend(backend);
        ops::matmul(x, y.transpose(0, 1));
        ops::matmul(ops::cast(x, bf16), ops::cast(y, bf16).transpose(0, 1));
        CHECK(keeps_denormals());
      }
      set_matmul_backend(MatmulBackend::automatic);
      ops::cross_entropy(x, targets), ops::layer_norm(x, {}, {});
      const Tensor heads = x.view({1, 5, 64, 13});
      ops::attention(heads, heads, heads, {.causal = true, .dropout = 0.5});
      ops::fill_normal(x, 1), x.copy_from(y), x.clone().zero();
      CHECK(keeps_denormals());
      const void* sources[] = {x.raw_data(), y.raw_data()};
      kernels::cpu::combine_sources(f32, kernels::cpu::Combination::sum, sources, x.raw_data(), x.numel());
      kernels::cpu::combine_sources(f32, kernels::cpu::Combination::sum, sources, x.raw_data(), 2);
      CHECK(keeps_denormals());
      parallel_for(3, 1, [](int64_t, int64_t) { CHECK(flushes_denormals()); });
      CHECK(keeps_denormals());
    });
}

TEST_CASE("flush denormals: an operation that throws restores the thread's setting") {
  run_in_new_thread(2, [] {
    CHECK_THROWS_AS(ops::cross_entropy(Tensor::zeros({2, 3}, f32), Tensor::from<int64_t>({0, 3})),
                    IndexError);
    CHECK(keeps_denormals());
    CHECK_THROWS_AS(parallel_for(2, 1, [](int64_t, int64_t) { throw ValueError("no"); }), ValueError);
    CHECK(keeps_denormals());
  });
}

TEST_CASE("flush denormals: a thread that flushed before flushes afterwards") {
  run_in_new_thread(2, [] {
    const FlushDenormals mine;
    CHECK(flushes_denormals());
    {
      const FlushDenormals inner;
      CHECK(flushes_denormals());
    }
    ops::exp(Tensor::zeros({8}, f32));
    CHECK(flushes_denormals());
  });
}

TEST_CASE("flush denormals: the first kernel of a thread flushes like all others") {
  for (int threads : {1, 3}) {
    run_in_new_thread(threads, [] { CHECK(all_zero(ops::mul(denormals({1 << 16}), 4))); });
    run_in_new_thread(threads, [] {
      CHECK(all_zero(ops::mul(filled({3}, f32, [](int64_t) { return 0x1p-100; }), 0x1p-40)));
    });
    run_in_new_thread(threads, [] { CHECK(all_zero(ops::sum(denormals({64, 64})))); });
    run_in_new_thread(threads, [] {
      const Tensor a = denormals({32, 32}), b = filled({32, 32}, f32, [](int64_t) { return 0x1p20; });
      for (MatmulBackend backend : {MatmulBackend::automatic, MatmulBackend::eigen}) {
        set_matmul_backend(backend);
        CHECK(all_zero(ops::matmul(a, b)));
      }
      set_matmul_backend(MatmulBackend::automatic);
    });
    run_in_new_thread(threads, [] {
      const Tensor a = denormals({4}), b = denormals({4}), out = Tensor::zeros({4}, f32);
      const void* sources[] = {a.raw_data(), b.raw_data()};
      kernels::cpu::combine_sources(f32, kernels::cpu::Combination::sum, sources, out.raw_data(), 4);
      CHECK(all_zero(out));
    });
  }
}
