// Matrix products at the sizes of the models, in GFLOP/s: oneDNN and Eigen, forward, gradients of x and of W.
//
//     build/release/bin/bench/bench_matmul [--benchmark_filter=nano_cpu]

#include <benchmark/benchmark.h>

#include "tensor/ops/matmul.h"
#include "tensor/threads/parallel.h"

namespace {

using namespace tessera;

Tensor values(const Shape& shape, DType dtype) {
  const Tensor x = Tensor::empty(shape, dtype);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float value = static_cast<float>((i * 7919) % 257 - 128) / 128;
    if (dtype == bf16)
      x.data<bfloat16>()[i] = bfloat16(value);
    else
      x.data<float>()[i] = value;
  }
  return x;
}

enum class Product { forward, input_gradient, weight_gradient };

struct Size {
  const char* name;
  int64_t rows, in, out;
};

/// A linear layer's products: y = x W^T, dx = dy W, dW += dy^T x.
void linear_layer(benchmark::State& state, Size size, Product product, MatmulBackend backend, DType dtype) {
  set_matmul_backend(backend);
  const Tensor x = values({size.rows, size.in}, dtype), weight = values({size.out, size.in}, dtype),
               dy = values({size.rows, size.out}, dtype), dw = Tensor::zeros({size.out, size.in}, f32);
  for (auto _ : state) {
    if (product == Product::forward)
      benchmark::DoNotOptimize(ops::linear(x, weight).raw_data());
    else if (product == Product::input_gradient)
      benchmark::DoNotOptimize(ops::matmul(dy, weight).raw_data());
    else
      ops::matmul_accumulate(dw, dy.transpose(0, 1), x);
  }
  const double flops = 2.0 * static_cast<double>(size.rows * size.in * size.out);
  state.counters["FLOP/s"] = benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
  set_matmul_backend(MatmulBackend::automatic);
}

/// A batch of attention heads: scores = q k^T.
void heads(benchmark::State& state, MatmulBackend backend) {
  set_matmul_backend(backend);
  const Tensor q = values({48, 64, 32}, f32), k = values({48, 64, 32}, f32);
  for (auto _ : state) benchmark::DoNotOptimize(ops::matmul(q, k.transpose(1, 2)).raw_data());
  state.counters["FLOP/s"] =
      benchmark::Counter(2.0 * 48 * 64 * 64 * 32, benchmark::Counter::kIsIterationInvariantRate);
  set_matmul_backend(MatmulBackend::automatic);
}

void register_all() {
  const Size sizes[] = {{"nano_cpu/qkv", 768, 128, 384},
                        {"nano_cpu/proj", 768, 128, 128},
                        {"nano_cpu/fc", 768, 128, 512},
                        {"nano_cpu/mlp_proj", 768, 512, 128},
                        {"nano_cpu/head", 768, 128, 65},
                        {"width_768/fc", 1024, 768, 3072},
                        {"width_768/mlp_proj", 1024, 3072, 768},
                        {"gpt_lite/qkv", 2048, 768, 2304},
                        {"nano/proj", 16384, 384, 384},
                        {"nano/fc", 16384, 384, 1536},
                        {"nano/mlp_proj", 16384, 1536, 384},
                        {"rows_1", 1, 768, 3072},
                        {"rows_8", 8, 768, 3072},
                        {"rows_16", 16, 768, 3072},
                        {"rows_32", 32, 768, 3072},
                        {"rows_64", 64, 768, 3072}};
  const std::pair<const char*, Product> products[] = {{"forward", Product::forward},
                                                      {"input_gradient", Product::input_gradient},
                                                      {"weight_gradient", Product::weight_gradient}};
  const std::pair<const char*, MatmulBackend> backends[] = {{"automatic", MatmulBackend::automatic},
                                                            {"packed", MatmulBackend::packed},
                                                            {"onednn", MatmulBackend::onednn},
                                                            {"eigen", MatmulBackend::eigen}};
  for (const auto& [backend_name, backend] : backends)
    for (DType dtype : {f32, bf16})
      for (const Size& size : sizes)
        for (const auto& [product_name, product] : products)
          benchmark::RegisterBenchmark(
              text(backend_name, "/", dtype, "/", size.name, "/", product_name).c_str(), linear_layer, size,
              product, backend, dtype)
              ->UseRealTime();
  for (const auto& [backend_name, backend] : backends)
    benchmark::RegisterBenchmark(text(backend_name, "/f32/nano_cpu/scores").c_str(), heads, backend)
        ->UseRealTime();
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  register_all();
  benchmark::RunSpecifiedBenchmarks();
}
