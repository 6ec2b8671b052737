// Kernels beside this machine's limits. First its copy bandwidth and its rate of matrix products are measured
// and printed. Then every kernel has the bytes it must move (each operand once), its FLOPs, and its share of
// the roofline: the longer of bytes / copy rate and FLOPs / product rate, over its time. The copy rate is
// that of a copy with the kernel's footprint, so that what fits a cache is compared with that cache. FLOPs
// are those of products alone: exponentials and square roots are not counted.
//
//     build/release/bin/bench/bench_roofline [--benchmark_filter=layer_norm]

#include <benchmark/benchmark.h>

#include <functional>
#include <iostream>
#include <map>
#include <vector>

#include "tensor/elementwise/update_rules.h"
#include "tensor/ops/creation/random.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/indexing/indexing.h"
#include "tensor/ops/layers/attention.h"
#include "tensor/ops/layers/dropout.h"
#include "tensor/ops/layers/loss.h"
#include "tensor/ops/layers/normalization.h"
#include "tensor/ops/layers/softmax.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/training/multi_tensor.h"
#include "tensor/ops/training/optimizer_update.h"
#include "tensor/profile/machine_rates.h"
#include "tensor/profile/op_table.h"
#include "tensor/threads/parallel.h"

namespace {

using namespace tessera;

Tensor values(const Shape& shape, DType dtype) {
  const Tensor x = Tensor::empty(shape, dtype);
  ops::fill_uniform(x, 1, 0, -1, 1);
  return x;
}

Tensor ids_below(int64_t classes, int64_t count) {
  const Tensor ids = Tensor::empty({count}, i64);
  for (int64_t i = 0; i < count; ++i) ids.data<int64_t>()[i] = (i * 7919) % classes;
  return ids;
}

/// The bytes and FLOPs of one call, as its kernels report them.
struct Amount {
  int64_t bytes = 0, flops = 0;
};

Amount amount_of(const std::function<void()>& work) {
  Profiler profiler;
  {
    const ProfilerScope recording(profiler);
    work();
  }
  Amount amount;
  for (const OpTotal& op : top_ops(profiler).ops) {
    amount.bytes += op.bytes;
    amount.flops += op.flops;
  }
  return amount;
}

double copy_rate(int64_t footprint) {
  static std::map<int64_t, double> measured;
  const auto [found, is_new] = measured.try_emplace(footprint, 0.0);
  if (is_new) found->second = measured_copy_rate(footprint);
  return found->second;
}

double product_rate(DType dtype) {
  static std::map<DType, double> measured;
  const auto [found, is_new] = measured.try_emplace(dtype, 0.0);
  if (is_new) found->second = measured_product_rate(dtype);
  return found->second;
}

void run(benchmark::State& state, DType dtype, int64_t bytes,
         const std::function<std::function<void()>()>& make) {
  const std::function<void()> work = make();
  Amount amount = amount_of(work);
  if (bytes > 0) amount.bytes = bytes;
  const double moved = static_cast<double>(amount.bytes), computed = static_cast<double>(amount.flops);
  const double ideal = std::max(moved / copy_rate(amount.bytes), computed / product_rate(dtype));
  const int64_t began = profile_clock();
  for (auto _ : state) work();
  const double seconds =
      static_cast<double>(profile_clock() - began) * 1e-9 / static_cast<double>(state.iterations());
  state.counters["MB"] = moved / 1e6;
  state.counters["GB/s"] = moved / seconds / 1e9;
  if (amount.flops > 0) state.counters["GFLOP/s"] = computed / seconds / 1e9;
  state.counters["roofline_%"] = 100 * ideal / seconds;
}

/// Registers a kernel. `make` builds its operands and returns the call. `bytes` is given where the kernel
/// does not use all of its operands.
void add(const std::string& name, DType dtype, std::function<std::function<void()>()> make,
         int64_t bytes = 0) {
  benchmark::RegisterBenchmark(text(name, "/", dtype).c_str(),
                               [=](benchmark::State& state) { run(state, dtype, bytes, make); })
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}

/// Rows of activations: of a size that fits the caches, as in nano-cpu, and of one that does not.
struct Rows {
  const char* name;
  int64_t rows, width;
};

void add_row_kernels(const Rows& r, DType dtype) {
  const Shape shape{r.rows, r.width}, width{r.width};
  const std::string at = text("/", r.name);
  add("copy" + at, dtype,
      [=] { return [x = values(shape, dtype), y = Tensor::empty(shape, dtype)] { y.copy_from(x); }; });
  add("add" + at, dtype,
      [=] { return [x = values(shape, dtype), y = values(shape, dtype)] { ops::add(x, y); }; });
  add("gelu" + at, dtype, [=] { return [x = values(shape, dtype)] { ops::gelu(x); }; });
  add("gelu_backward" + at, dtype,
      [=] { return [x = values(shape, dtype), dy = values(shape, dtype)] { ops::gelu_backward(x, dy); }; });
  add("dropout" + at, dtype, [=] { return [x = values(shape, dtype)] { ops::dropout(x, 0.1, 7); }; });
  add("softmax" + at, dtype, [=] { return [x = values(shape, dtype)] { ops::softmax(x); }; });
  add("softmax_backward" + at, dtype, [=] {
    return
        [y = ops::softmax(values(shape, dtype)), dy = values(shape, dtype)] { ops::softmax_backward(y, dy); };
  });
  add("layer_norm" + at, dtype, [=] {
    return [x = values(shape, dtype), weight = values(width, dtype), bias = values(width, dtype)] {
      ops::layer_norm(x, weight, bias);
    };
  });
  add("layer_norm_backward" + at, dtype, [=] {
    const Tensor x = values(shape, dtype), weight = values(width, dtype);
    return [=, dy = values(shape, dtype), kept = ops::layer_norm(x, weight, {})] {
      ops::normalization_backward(dy, x, weight, kept.mean, kept.rstd, 1, {.bias = false});
    };
  });
}

void add_attention(const char* name, int64_t batch, int64_t heads, int64_t time, DType dtype) {
  const Shape shape{batch, heads, time, 64};
  const AttentionOptions options{.causal = true};
  add(text("attention/", name), dtype, [=] {
    return [=, q = values(shape, dtype), k = values(shape, dtype), v = values(shape, dtype)] {
      ops::attention(q, k, v, options);
    };
  });
  add(text("attention_backward/", name), dtype, [=] {
    const Tensor q = values(shape, dtype), k = values(shape, dtype), v = values(shape, dtype);
    return [=, kept = ops::attention(q, k, v, options), dout = values(shape, dtype),
            dq = Tensor::empty(shape, dtype), dk = Tensor::empty(shape, dtype),
            dv = Tensor::empty(shape, dtype)] {
      ops::attention_backward(q, k, v, kept, dout, options, dq, dk, dv);
    };
  });
}

void add_losses(DType dtype) {
  constexpr int64_t rows = 1024, classes = 50304;
  add("cross_entropy/1024x50304", dtype, [=] {
    return
        [x = values({rows, classes}, dtype), ids = ids_below(classes, rows)] { ops::cross_entropy(x, ids); };
  });
  add("cross_entropy_backward/1024x50304", dtype, [=] {
    const Tensor x = values({rows, classes}, dtype), ids = ids_below(classes, rows);
    const ops::CrossEntropy kept = ops::cross_entropy(x, ids);
    return [=] { ops::cross_entropy_backward(kept.loss, x, ids, {}, kept, {}); };
  });
}

void add_embedding(DType dtype) {
  constexpr int64_t rows = 16384, classes = 8192, width = 768;
  const int64_t moved = 2 * rows * width * size_of(dtype) + rows * size_of(i64);
  add(
      "embedding/16384x768", dtype,
      [=] {
        return [weight = values({classes, width}, dtype), ids = ids_below(classes, rows)] {
          ops::embedding(ids, weight);
        };
      },
      moved);
  add("embedding_backward/16384x768", dtype, [=] {
    return [out = Tensor::zeros({classes, width}, f32), dy = values({rows, width}, dtype),
            ids = ids_below(classes, rows)] { ops::embedding_accumulate(out, dy, ids); };
  });
}

void add_optimizer() {
  constexpr int64_t n = int64_t{1} << 24;
  add("adam_update/16M", f32, [] {
    const ops::UpdateItem item{.parameter = values({n}, f32),
                               .gradient = values({n}, f32),
                               .step = Tensor::zeros({}, i64),
                               .state = {Tensor::zeros({n}, f32), Tensor::zeros({n}, f32), Tensor()}};
    const ops::UpdateGroup<elementwise::AdamRule> group{Tensor::scalar(1e-3),
                                                        {0.9, 0.99, 1e-8, 0.1, true, false}};
    return [=] {
      ops::optimizer_update<elementwise::AdamRule>({&item, 1}, {&group, 1}, Tensor::scalar(0.5));
    };
  });
  add("power_sums/16M", f32, [] { return [x = values({n}, f32)] { ops::power_sums({&x, 1}, 2); }; });
}

void add_product(DType dtype) {
  add("matmul/1024x768x3072", dtype, [=] {
    return [a = values({1024, 768}, dtype), b = values({768, 3072}, dtype)] { ops::matmul(a, b); };
  });
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  std::cerr << num_threads() << " threads; copy " << copy_rate(int64_t{1} << 29) / 1e9 << " GB/s; products "
            << product_rate(f32) / 1e9 << " GFLOP/s in f32, " << product_rate(bf16) / 1e9 << " in bf16\n";
  for (const DType dtype : {f32, bf16}) {
    add_product(dtype);
    for (const Rows& rows : {Rows{"768x128", 768, 128}, Rows{"16384x768", 16384, 768}})
      add_row_kernels(rows, dtype);
    add_attention("8x6x256x64", 8, 6, 256, dtype);
    add_attention("1x12x2048x64", 1, 12, 2048, dtype);
    add_losses(dtype);
    add_embedding(dtype);
  }
  add_optimizer();
  benchmark::RunSpecifiedBenchmarks();
}
