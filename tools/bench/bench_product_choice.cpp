// The line of this processor in the table of f32 products (tensor/cpu/gemm/product_choice.cpp): our kernels
// and oneDNN in turns over the linear layers of a block of several presets, with the first operand read in
// place (forward, gradient of the input) and stored transposed (gradient of the weight: by the number of its
// rows); then products of few rows, with a weight (in, out) and with one (out, in).
//
//     build/release/bin/bench/bench_product_choice
//     TESSERA_ISA_MAX=avx2 build/release/bin/bench/bench_product_choice
//
// Prints a table of rates and, last, the line. Run it on an idle machine.

#include <algorithm>
#include <cmath>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <vector>

#include "dist/train/profile/wall_clock.h"
#include "models/presets.h"
#include "tensor/cpu/gemm/onednn/gemm_onednn.h"
#include "tensor/cpu/isa.h"
#include "tensor/cpu/processor.h"
#include "tensor/error.h"
#include "tensor/ops/creation/random.h"
#include "tensor/ops/matmul.h"

namespace {

using namespace tessera;

constexpr int rounds = 11;
constexpr double turn_seconds = 0.03;

Tensor values(const Shape& shape) {
  const Tensor x = Tensor::empty(shape, f32);
  ops::fill_uniform(x, 1);
  return x;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

/// Seconds of a call, the mean over a turn.
double turn(MatmulBackend backend, const std::function<void()>& product) {
  set_matmul_backend(backend);
  product();
  const double began = training::profile_seconds();
  int calls = 0;
  double took = 0;
  for (; took < turn_seconds; took = training::profile_seconds() - began, ++calls) product();
  return took / calls;
}

/// Time of both kernels for one kind of product, over all presets and layers.
struct Kind {
  double log_ratio = 0;
  int cases = 0;

  bool is_ours_faster() const { return log_ratio < 0; }

  void measure(const char* preset, const char* what, const Shape& shape, double flops,
               const std::function<void()>& product) {
    std::vector<double> ours, library, ratios;
    for (int round = 0; round < rounds; ++round) {
      ours.push_back(turn(MatmulBackend::packed, product));
      library.push_back(turn(MatmulBackend::onednn, product));
      ratios.push_back(ours.back() / library.back());
    }
    std::cout << "| " << preset << " | " << what << " | " << shape << " | " << std::fixed
              << std::setprecision(0) << flops / median(ours) / 1e9 << " | " << flops / median(library) / 1e9
              << " | " << std::setprecision(2) << 1 / median(ratios) << " |" << std::endl;
    log_ratio += std::log(median(ratios));
    ++cases;
  }
};

/// The number of rows at which products with a weight change hands: fewer are the library's.
int64_t few_rows(int64_t in, int64_t out) {
  const Tensor stored = values({in, out}), weight = values({out, in});
  int64_t library_below = 0;
  for (int64_t rows = 32; rows <= 256; rows *= 2) {
    const Tensor x = values({rows, in}), y = values({rows, out});
    const double flops = 2.0 * static_cast<double>(rows * in * out);
    Kind both;
    both.measure("few rows", "weight (in, out)", {rows, out, in}, flops,
                 [&] { ops::matmul_out(y, x, stored); });
    both.measure("few rows", "weight (out, in)", {rows, out, in}, flops,
                 [&] { ops::matmul_out(y, x, weight.transpose(0, 1)); });
    if (!both.is_ours_faster()) library_below = 2 * rows;
  }
  return std::max<int64_t>(library_below, 32);
}

/// The same for gradients of weights, by their rows: the smallest number from which on ours are faster.
int64_t few_rows(const std::map<int64_t, Kind>& by_rows) {
  int64_t bound = 0;
  for (auto kind = by_rows.rbegin(); kind != by_rows.rend() && kind->second.is_ours_faster(); ++kind)
    bound = kind->first;
  return bound;
}

}  // namespace

int main() {
  using namespace tessera::kernels::cpu;
  if (!onednn_serves()) {
    std::cerr << "bench_product_choice: there is nothing to choose from: no oneDNN in this build\n";
    return 2;
  }
  try {
    Kind in_place;
    std::map<int64_t, Kind> transposed;  // by rows
    std::cout << "| preset | product | m, n, k | ours: GFLOP/s | oneDNN | ours over oneDNN |\n"
                 "| --- | --- | --- | --- | --- | --- |\n";
    for (const char* name : {"nano-cpu", "width-768", "nano"}) {
      const models::Preset preset = models::preset(name, 65);
      const int64_t c = preset.model.width;
      const int64_t rows = std::min<int64_t>(preset.batch_size * preset.model.block_size, 4096);
      for (const auto& [in, out] : {std::pair{c, 3 * c}, {c, c}, {c, 4 * c}, {4 * c, c}}) {
        const Tensor x = values({rows, in}), weight = values({out, in}), dy = values({rows, out});
        const Tensor y = values({rows, out}), dx = values({rows, in}), dw = values({out, in});
        const double flops = 2.0 * static_cast<double>(rows * in * out);
        in_place.measure(name, "forward", {rows, out, in}, flops,
                         [&] { ops::matmul_out(y, x, weight.transpose(0, 1)); });
        in_place.measure(name, "gradient of the input", {rows, in, out}, flops,
                         [&] { ops::matmul_out(dx, dy, weight); });
        transposed[out].measure(name, "gradient of the weight", {out, in, rows}, flops,
                                [&] { ops::matmul_accumulate(dw, dy.transpose(0, 1), x); });
      }
    }
    const int64_t library_below = few_rows(1024, 2048), transposed_below = few_rows(transposed);
    std::cout << "\nours over oneDNN in place, geometric mean: "
              << std::exp(-in_place.log_ratio / in_place.cases)
              << "\n    {Processor::" << name(this_processor())
              << ", Isa::" << name(std::min(current_isa(), Isa::avx512)) << ", "
              << (in_place.is_ours_faster() ? "packed" : "library") << ", "
              << (transposed_below > 0 ? "packed" : "library") << ", " << library_below << ", "
              << std::max<int64_t>(transposed_below, 128) << "},\n";
  } catch (const Error& error) {
    std::cerr << "bench_product_choice: " << error.what() << "\n";
    return 2;
  }
}
