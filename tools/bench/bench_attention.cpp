// Causal self-attention, forward and backward, at the sizes of the models, without dropout and, where the
// model trains with it, also with it. FLOP/s counts the visible pairs of a query and a key, T (T + 1) / 2, as
// the profiler does.
//
//     build/release/bin/bench/bench_attention

#include <benchmark/benchmark.h>

#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/layers/attention.h"

namespace {

using namespace tessera;

struct Size {
  const char* name;
  int64_t batch, time, heads, width;
  double dropout;  ///< of the weights, in training
};

Tensor values(const Shape& shape, DType dtype) {
  const Tensor x = Tensor::empty(shape, f32);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = static_cast<float>((i * 7919) % 257 - 128) / 128;
  return ops::cast(x, dtype);
}

/// A third of a (B, T, 3 C) tensor as (B, H, T, D), as self-attention reads it.
Tensor third_of(const Tensor& qkv, const Size& size, int64_t which) {
  const int64_t channels = size.heads * size.width;
  return qkv.narrow(2, which * channels, channels)
      .view({size.batch, size.time, size.heads, size.width})
      .transpose(1, 2);
}

void attention(benchmark::State& state, Size size, bool backward, DType dtype, double dropout) {
  const int64_t channels = size.heads * size.width;
  const Tensor qkv = values({size.batch, size.time, 3 * channels}, dtype), gradient = Tensor::empty_like(qkv);
  const Tensor q = third_of(qkv, size, 0), k = third_of(qkv, size, 1), v = third_of(qkv, size, 2);
  const AttentionOptions options{.causal = true, .dropout = dropout, .key = 7};
  const ops::Attention forward = ops::attention(q, k, v, options);
  for (auto _ : state) {
    if (backward)
      ops::attention_backward(q, k, v, forward, forward.out, options, third_of(gradient, size, 0),
                              third_of(gradient, size, 1), third_of(gradient, size, 2));
    else
      benchmark::DoNotOptimize(ops::attention(q, k, v, options).out.raw_data());
  }
  const double product =
      static_cast<double>(size.batch * size.heads * size.time * (size.time + 1) * size.width);
  state.counters["FLOP/s"] =
      benchmark::Counter((backward ? 5 : 2) * product, benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  for (const Size& size : {Size{"nano_cpu", 12, 64, 4, 32, 0}, Size{"nano", 8, 256, 6, 64, 0.2},
                           Size{"width_768", 2, 512, 12, 64, 0}, Size{"gpt_lite", 1, 2048, 12, 64, 0.1}})
    for (const bool backward : {false, true})
      for (const DType dtype : {f32, bf16})
        for (const double dropout : {0.0, size.dropout}) {
          const std::string name =
              text(dtype, "/", size.name, backward ? "/backward" : "/forward", dropout > 0 ? "/dropout" : "");
          benchmark::RegisterBenchmark(name.c_str(), attention, size, backward, dtype, dropout)
              ->UseRealTime();
          if (size.dropout == 0) break;
        }
  benchmark::RunSpecifiedBenchmarks();
}
