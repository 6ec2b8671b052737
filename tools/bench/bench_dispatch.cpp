// The cost of an operation besides its kernel: nanoseconds per operation, forward and backward together, in a
// chain of 100 on tensors of 8 x 8. Their kernels take some tens of nanoseconds. One thread.
//
//     build/release/bin/bench/bench_dispatch [--benchmark_filter=gelu]

#include <benchmark/benchmark.h>

#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/view.h"
#include "tensor/memory/cpu_allocator.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/threads/parallel.h"

namespace {

using namespace tessera;

constexpr int chain = 100;

/// Forward and backward of y = op(op(... op(x))); `w` is a constant of x's shape.
template <class Op>
void forward_and_backward(benchmark::State& state, Op op) {
  set_num_threads(1);
  const Variable x = Variable::leaf(ops::full({8, 8}, Scalar(0.5), f32));
  const Variable w = ops::full({8, 8}, Scalar(0.125), f32);
  const Variable dy = ops::full({8, 8}, Scalar(1.0), f32);
  const auto steps = [&] {
    Variable y = x;
    for (int i = 0; i < chain; ++i) y = op(y, w);
    y.backward(dy);
    x.set_grad({});
  };
  steps();
  const int64_t before = cpu_allocator_statistics().system_allocations;
  for (auto _ : state) steps();
  state.counters["per op"] = benchmark::Counter(static_cast<double>(state.iterations() * chain),
                                                benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["system allocations"] =
      static_cast<double>(cpu_allocator_statistics().system_allocations - before);
}

/// The raw operation alone: no graph.
void raw_add(benchmark::State& state) {
  set_num_threads(1);
  const Tensor x = ops::full({8, 8}, Scalar(0.5), f32);
  for (auto _ : state) {
    Tensor y = x;
    for (int i = 0; i < chain; ++i) y = ops::add(y, x);
    benchmark::DoNotOptimize(y.raw_data());
  }
  state.counters["per op"] = benchmark::Counter(static_cast<double>(state.iterations() * chain),
                                                benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

BENCHMARK(raw_add);
BENCHMARK_CAPTURE(forward_and_backward, add, [](const Variable& y, const Variable& w) { return add(y, w); });
BENCHMARK_CAPTURE(forward_and_backward, mul, [](const Variable& y, const Variable& w) { return mul(y, w); });
BENCHMARK_CAPTURE(forward_and_backward, gelu, [](const Variable& y, const Variable&) { return gelu(y); });
BENCHMARK_CAPTURE(forward_and_backward, matmul_8x8,
                  [](const Variable& y, const Variable& w) { return matmul(y, w); });
BENCHMARK_CAPTURE(forward_and_backward, view, [](const Variable& y, const Variable&) {
  return view(y, y.size(0) == 8 ? Shape{64, 1} : Shape{8, 8});
});

}  // namespace

BENCHMARK_MAIN();
