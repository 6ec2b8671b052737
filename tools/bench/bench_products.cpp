// The lower bound of a training step's time: the rate of matrix products over one block's linear layers, each
// as forward (y = x W^T), gradient of the input (dx = dy W) and gradient of the weight (dW += dy^T x). Prints
// one JSON object.
//
//     build/release/bin/bench/bench_products --preset width-768 --dtype bf16
//
// With --turns it measures this and the copy rate again whenever a runner asks (turns.h).

#include <json/json.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>

#include "dist/train/profile/wall_clock.h"
#include "models/presets.h"
#include "tensor/error.h"
#include "tensor/ops/creation/random.h"
#include "tensor/ops/matmul.h"
#include "tensor/profile/machine_rates.h"
#include "tensor/threads/parallel.h"
#include "tools/bench/turns.h"
#include "tools/gptlite/run.h"

namespace {

using namespace tessera;

Tensor values(const Shape& shape, DType dtype) {
  const Tensor x = Tensor::empty(shape, dtype);
  ops::fill_uniform(x, 1);
  return x;
}

/// Seconds of one call: the median of calls over at least `total` seconds.
double seconds_of(const std::function<void()>& product, double total) {
  product();
  std::vector<double> seconds;
  for (double sum = 0; sum < total || seconds.size() < (total < 0.1 ? 2 : 5); sum += seconds.back()) {
    const double began = training::profile_seconds();
    product();
    seconds.push_back(training::profile_seconds() - began);
  }
  std::nth_element(seconds.begin(), seconds.begin() + std::ssize(seconds) / 2, seconds.end());
  return seconds[seconds.size() / 2];
}

struct Layer {
  const char* name;
  int64_t in, out;
};

struct Sum {
  double flops = 0, seconds = 0;
};

Json::Value measure(const Layer& layer, int64_t rows, DType dtype, double total, Sum& sum) {
  const Tensor x = values({rows, layer.in}, dtype), weight = values({layer.out, layer.in}, dtype),
               dy = values({rows, layer.out}, dtype), y = Tensor::empty({rows, layer.out}, dtype),
               dx = Tensor::empty({rows, layer.in}, dtype), dw = Tensor::zeros({layer.out, layer.in}, f32);
  const double flops = 2.0 * static_cast<double>(rows * layer.in * layer.out);
  Json::Value v;
  v["layer"] = layer.name;
  const auto add = [&](const char* name, const std::function<void()>& product) {
    const double seconds = seconds_of(product, total);
    v[name] = flops / seconds / 1e9;
    sum.flops += flops;
    sum.seconds += seconds;
  };
  add("forward", [&] { ops::matmul_out(y, x, weight.transpose(0, 1)); });
  add("input_gradient", [&] { ops::matmul_out(dx, dy, weight); });
  add("weight_gradient", [&] { ops::matmul_accumulate(dw, dy.transpose(0, 1), x); });
  return v;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The rate of a block's matrix products, as one JSON object", "bench_products");
  std::string name = "nano-cpu", dtype = "fp32";
  MatmulBackend backend = MatmulBackend::automatic;
  int threads = 0;
  app.add_option("--preset", name, "the block's preset")->capture_default_str();
  app.add_option("--dtype", dtype, "fp32 or bf16")->capture_default_str();
  app.add_option("--backend", backend, "automatic, eigen, onednn or packed")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, MatmulBackend>{{"automatic", MatmulBackend::automatic},
                                               {"eigen", MatmulBackend::eigen},
                                               {"onednn", MatmulBackend::onednn},
                                               {"packed", MatmulBackend::packed}}));
  bool turns = false;
  app.add_flag(
      "--turns", turns,
      "measure whenever the standard input has a line: seconds, of which a part goes to the copy rate");
  app.add_option("--threads", threads, "(default: the cores of this process)");
  CLI11_PARSE(app, argc, argv);
  try {
    if (threads != 0) set_num_threads(threads);
    set_matmul_backend(backend);
    const models::Preset preset = models::preset(name, 65);
    const int64_t c = preset.model.width, rows = preset.batch_size * preset.model.block_size;
    const auto measured = [&](double total) {
      Json::Value result;
      result["program"] = "bench_products";
      result["preset"] = name;
      result["dtype"] = dtype;
      result["threads"] = num_threads();
      Sum sum;
      for (const Layer& layer : {Layer{"qkv", c, 3 * c}, Layer{"attention projection", c, c},
                                 Layer{"mlp up", c, 4 * c}, Layer{"mlp down", 4 * c, c}})
        result["products"].append(measure(layer, rows, gptlite::compute_dtype(dtype), total, sum));
      result["gflops"] = sum.flops / sum.seconds / 1e9;
      result["tokens_per_second"] =
          sum.flops / sum.seconds / static_cast<double>(models::flops_per_token(preset.model));
      return result;
    };
    if (!turns) bench::print_line(measured(0.2));
    for (std::optional<double> seconds; turns && (seconds = bench::next_turn());) {
      Json::Value result = measured(*seconds / 15);  // 12 products
      result["copy_rate"] = measured_copy_rate(int64_t{1} << 27);
      bench::bind_main_thread();
      bench::print_line(result);
    }
  } catch (const Error& error) {
    std::cerr << "bench_products: " << error.what() << "\n";
    return 2;
  }
}
