// What the tiles of this machine's processors give at the moment, all of them at once, in short turns: the
// floor under products and attention in bf16. On a shared core the tiles themselves keep half of their rate
// or more, but loads of tiles no longer pass beside them: then a product is as fast as its loads allow.
//
//     build/release/bin/bench/bench_tiles [--turns N] [--threads N]
//
// A line for each pattern: GFLOP/s of a thread by the quartiles of all turns, and the share of the turns in
// which it had more than half of the best rate. Then products and attention at width 768, on one thread, each
// between two turns of the third pattern: the medians where both turns were above half of the best rate (the
// core was ours alone), and where none was. Attention counts visible pairs.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <mutex>
#include <vector>

#include "tensor/cpu/gemm/tiles/tile_registers.h"
#include "tensor/cpu/gemm/tiles/tile_shapes.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/ops/creation/random.h"
#include "tensor/ops/layers/attention.h"
#include "tensor/ops/matmul.h"
#include "tensor/threads/parallel.h"

#if defined(__x86_64__)

namespace {

using namespace tessera;

constexpr int64_t tile_values = 512, steps = 8;  // of bf16; a range of k of 256
constexpr double flops_of_tile = 2.0 * 16 * 16 * 32;

/// Two tiles of a and two of b for each step of k.
struct Operands {
  const bfloat16 *a, *b;
  int64_t step;  ///< elements between steps
};

// Tiles 0 to 3 are sums, 4 and 5 are of a, 6 and 7 of b.
inline void load_operands(const Operands& x, int64_t s) {
  const bfloat16 *const a = x.a + s * x.step, *const b = x.b + s * x.step;
  asm volatile(
      "tileloadd (%0,%4,1), %%tmm4\n"
      "tileloadd (%2,%4,1), %%tmm6\n"
      "tileloadd (%1,%4,1), %%tmm5\n"
      "tileloadd (%3,%4,1), %%tmm7"
      :
      : "r"(a), "r"(a + tile_values), "r"(b), "r"(b + tile_values), "r"(int64_t{64})
      : "memory");
}
inline void multiply_operands() {
  asm volatile(
      "tdpbf16ps %tmm6, %tmm4, %tmm0\n"
      "tdpbf16ps %tmm7, %tmm4, %tmm1\n"
      "tdpbf16ps %tmm6, %tmm5, %tmm2\n"
      "tdpbf16ps %tmm7, %tmm5, %tmm3");
}

struct Pattern {
  const char* name;
  bool loads, multiplies;
  int64_t blocks;  ///< of b, one after another; a stays
};
// Blocks of b of 16 KiB: one stays in the first-level cache, 48 in the second-level cache.
constexpr Pattern patterns[] = {{"tiles alone", false, true, 1},
                                {"loads alone, first-level cache", true, false, 1},
                                {"four loads for four products, first-level cache", true, true, 1},
                                {"the same, b from the second-level cache", true, true, 48}};

/// GFLOP/s of one turn; loads count as the products that need them.
double rate_of(const Pattern& p, const bfloat16* a, const bfloat16* b) {
  constexpr int64_t rounds = 96;
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < rounds; ++i) {
    const Operands x{a, b + i % p.blocks * steps * 2 * tile_values, 2 * tile_values};
    for (int64_t s = 0; s < steps; ++s) {
      if (p.loads) load_operands(x, s);
      if (p.multiplies) multiply_operands();
    }
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return static_cast<double>(rounds * steps) * 4 * flops_of_tile / seconds / 1e9;
}

/// A turn of a pattern at a time, beside other users of the tiles in this thread.
class Probe {
 public:
  Probe() {
    std::fill_n(a_.get(), block, bfloat16(1.0f));
    std::fill_n(b_.get(), block, bfloat16(0.0f));
  }
  double rate() const {
    kernels::cpu::TileShapes shapes;
    for (int t = 0; t < 8; ++t) shapes.set(t, 16, 64);
    asm volatile("ldtilecfg %0" : : "m"(shapes));
    const double found = rate_of(patterns[2], a_.get(), b_.get());
    asm volatile("tilerelease");
    return found;
  }

 private:
  static constexpr int64_t block = steps * 2 * tile_values;
  kernels::cpu::Scratch<bfloat16> a_{block}, b_{block};
};

double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// An operation on one thread, in turns with the probe; `best` is the best rate of the probe's pattern.
void run_operation(const char* name, double flops, int64_t turns, double best,
                   const std::function<void()>& work) {
  const Probe probe;
  std::vector<double> before, after, rates;
  for (int64_t turn = 0; turn < turns; ++turn) {
    before.push_back(probe.rate());
    const auto start = std::chrono::steady_clock::now();
    work();
    rates.push_back(flops / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() /
                    1e9);
    after.push_back(probe.rate());
  }
  std::vector<double> alone, shared;
  for (size_t i = 0; i < rates.size(); ++i) {
    if (std::min(before[i], after[i]) > best / 2) alone.push_back(rates[i]);
    if (std::max(before[i], after[i]) < best / 2) shared.push_back(rates[i]);
  }
  const size_t fast = alone.size(), slow = shared.size();
  std::printf("%-50s core alone %5.0f (%zu turns), shared %5.0f (%zu turns)\n", name, median(alone), fast,
              median(shared), slow);
}

void run_operations(int64_t turns, double best) {
  set_num_threads(1);
  constexpr int64_t rows = 1024, in = 768, out = 3072, heads = 12, time = 512;
  const auto values = [](const Shape& shape) {
    const Tensor x = Tensor::empty(shape, bf16);
    ops::fill_uniform(x, 1, 0, -1, 1);
    return x;
  };
  const Tensor x = values({rows, in}), weight = values({out, in}), dy = values({rows, out});
  const double product = 2.0 * rows * in * out;
  run_operation("product (1024, 3072, 768), x W^T", product, turns, best,
                [&] { ops::matmul(x, weight.transpose(0, 1)); });
  run_operation("its input's gradient, dy W", product, turns, best, [&] { ops::matmul(dy, weight); });
  run_operation("its weight's gradient, dy^T x", product, turns, best,
                [&] { ops::matmul(dy.transpose(0, 1), x); });
  const Tensor qkv = values({2, time, 3 * in}), gradient = Tensor::empty_like(qkv);
  const auto third = [](const Tensor& all, int64_t which) {
    return all.narrow(2, which * in, in).view({2, time, heads, in / heads}).transpose(1, 2);
  };
  const Tensor q = third(qkv, 0), k = third(qkv, 1), v = third(qkv, 2);
  const AttentionOptions options{.causal = true};
  const ops::Attention kept = ops::attention(q, k, v, options);
  const double pairs = 2.0 * time * (time + 1) * in;
  run_operation("attention (2, 12, 512, 64), forward", 2 * pairs, turns, best,
                [&] { ops::attention(q, k, v, options); });
  run_operation("attention, backward", 5 * pairs, turns, best, [&] {
    ops::attention_backward(q, k, v, kept, kept.out, options, third(gradient, 0), third(gradient, 1),
                            third(gradient, 2));
  });
}

/// Returns the best rate of the third pattern.
double run_patterns(int64_t turns, int threads) {
  set_num_threads(threads);
  std::vector<std::vector<double>> rates(std::size(patterns));
  std::mutex adding;
  parallel_for(threads, 1, [&](int64_t begin, int64_t end) {
    constexpr int64_t block = steps * 2 * tile_values;
    const kernels::cpu::Scratch<bfloat16> a(block), b(48 * block);
    std::fill_n(a.get(), block, bfloat16(1.0f));
    std::fill_n(b.get(), 48 * block, bfloat16(0.0f));
    kernels::cpu::TileShapes shapes;
    for (int t = 0; t < 8; ++t) shapes.set(t, 16, 64);
    asm volatile("ldtilecfg %0" : : "m"(shapes));
    load_operands({a.get(), b.get(), 2 * tile_values}, 0);
    std::vector<std::vector<double>> own(std::size(patterns));
    for (int64_t turn = 0; turn < turns * (end - begin); ++turn)
      for (size_t p = 0; p < std::size(patterns); ++p)
        own[p].push_back(rate_of(patterns[p], a.get(), b.get()));
    asm volatile("tilerelease");
    const std::lock_guard<std::mutex> lock(adding);
    for (size_t p = 0; p < own.size(); ++p) rates[p].insert(rates[p].end(), own[p].begin(), own[p].end());
  });
  std::printf("%d threads, GFLOP/s of one; quartiles of %lld turns\n", threads,
              static_cast<long long>(std::ssize(rates[0])));
  double best_with_loads = 0;
  for (size_t p = 0; p < rates.size(); ++p) {
    std::vector<double>& r = rates[p];
    std::sort(r.begin(), r.end());
    if (p == 2) best_with_loads = r.back();
    const auto at = [&](size_t quarter) { return r[quarter * (r.size() - 1) / 4]; };
    const double best = r[r.size() - 1 - r.size() / 100];
    const auto fast = std::count_if(r.begin(), r.end(), [&](double rate) { return rate > best / 2; });
    std::printf("%-50s %5.0f %5.0f %5.0f   best %5.0f, above half of it in %3.0f %% of the turns\n",
                patterns[p].name, at(1), at(2), at(3), best,
                100 * static_cast<double>(fast) / static_cast<double>(r.size()));
  }
  return best_with_loads;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What the tiles of this machine's processors give at the moment", "bench_tiles");
  int64_t turns = 2000;
  int threads = num_threads();
  app.add_option("--turns", turns, "turns of each pattern")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--threads", threads, "threads that multiply at once")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (!kernels::cpu::multiplies_bf16_tiles()) {
    std::cerr << "bench_tiles: this processor has no tiles, or TESSERA_ISA_MAX forbids them\n";
    return 1;
  }
  try {
    run_operations(std::max<int64_t>(turns / 5, 1), run_patterns(turns, threads));
  } catch (const std::exception& e) {
    std::cerr << "bench_tiles: " << e.what() << "\n";
    return 1;
  }
  return 0;
}

#else

int main() {
  std::cerr << "bench_tiles: tiles are a part of x86-64\n";
  return 1;
}

#endif
