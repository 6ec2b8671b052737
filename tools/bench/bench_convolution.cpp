// GFLOP/s of every convolution of ResNet-18 on 64 images of 32 x 32, in channels-last layout: forward, and
// the gradients by x and by the weight. The rate counts the multiply-adds of the definition, so that a method
// with fewer of them can exceed the processor's rate.
//
//     build/release/bin/bench/bench_convolution --dtype bf16
//
// With --fused: convolutions of a VGG with bias and ReLU, and with a sum before it, in the pass that writes
// the result and as operations of their own, in alternation.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iomanip>
#include <iostream>

#include "tensor/channels_last.h"
#include "tensor/error.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/layers/convolution.h"
#include "tensor/threads/parallel.h"

namespace {

using namespace tessera;

struct Layer {
  int64_t in, out, size, kernel, stride, count;
};

constexpr Layer layers[] = {{3, 64, 32, 3, 1, 1},    {64, 64, 32, 3, 1, 4},   {64, 128, 32, 3, 2, 1},
                            {64, 128, 32, 1, 2, 1},  {128, 128, 16, 3, 1, 3}, {128, 256, 16, 3, 2, 1},
                            {128, 256, 16, 1, 2, 1}, {256, 256, 8, 3, 1, 3},  {256, 512, 8, 3, 2, 1},
                            {256, 512, 8, 1, 2, 1},  {512, 512, 4, 3, 1, 3}};

/// The least time of several runs, in seconds.
template <class Run>
double seconds_of(const Run& run) {
  double least = 1e9;
  for (int i = 0; i < 6; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return least;
}

void measure(DType dtype, int64_t batch) {
  const auto random = [dtype](const Shape& shape, bool last) {
    return in_layout(last, ops::cast(ops::sub(rand(shape), 0.5), dtype));
  };
  double all[3] = {0, 0, 0};
  std::cout << "channels     size  kernel  stride |  forward       dx       dw  GFLOP/s |  forward     dx    "
               " dw ms\n"
            << std::fixed << std::setprecision(0);
  for (const Layer& l : layers) {
    const Tensor x = random({batch, l.in, l.size, l.size}, true),
                 w = random({l.out, l.in, l.kernel, l.kernel}, false);
    const ConvolutionGeometry g =
        ops::convolution_geometry("bench", 2, x, w, {}, l.stride, l.kernel / 2, 1, 1);
    const Tensor dy = random(g.y_shape(), true), dw = Tensor::empty(w.shape(), f32);
    const double times[] = {
        seconds_of([&] { ops::convolution(g, x, w); }),
        seconds_of([&] { ops::convolution_input_backward(g, dy, w); }),
        seconds_of([&] { ops::convolution_weight_backward(g, dy, x, dw); }),
    };
    std::cout << std::setw(4) << l.in << " -> " << std::setw(3) << l.out << std::setw(6) << l.size
              << std::setw(8) << l.kernel << std::setw(8) << l.stride << " |";
    for (int i = 0; i < 3; ++i) {
      std::cout << std::setw(9) << 2e-9 * static_cast<double>(g.multiply_adds()) / times[i];
      if (i != 1 || l.in > 3) all[i] += times[i] * static_cast<double>(l.count);
    }
    std::cout << "          |" << std::setprecision(2);
    for (const double time : times) std::cout << std::setw(9) << 1e3 * time;
    std::cout << std::setprecision(0) << "\n";
  }
  std::cout << std::setprecision(1) << "all layers, ms: " << 1e3 * all[0] << " forward, " << 1e3 * all[1]
            << " dx, " << 1e3 * all[2] << " dw\n";
}

/// The time of bias, (sum) and ReLU in the convolution's pass, and as operations after it.
void measure_fused(DType dtype, int64_t batch) {
  const auto random = [dtype](const Shape& shape, bool last) {
    return in_layout(last, ops::cast(ops::sub(rand(shape), 0.5), dtype));
  };
  std::cout << "channels     size  |  relu: fused  apart  ratio  |  sum, relu: fused  apart  ratio (ms)\n"
            << std::fixed << std::setprecision(2);
  for (const Layer& l :
       {Layer{64, 64, 112, 3, 1, 1}, Layer{128, 128, 56, 3, 1, 1}, Layer{256, 256, 28, 3, 1, 1}}) {
    const Tensor x = random({batch, l.in, l.size, l.size}, true), bias = random({l.out}, false),
                 w = random({l.out, l.in, l.kernel, l.kernel}, false);
    const ConvolutionGeometry g = ops::convolution_geometry("bench", 2, x, w, bias, 1, 1, 1, 1);
    const Tensor added = random(g.y_shape(), true);
    std::cout << std::setw(4) << l.in << " -> " << std::setw(3) << l.out << std::setw(6) << l.size << "  |";
    for (const Tensor& summand : {Tensor(), added}) {
      double fused = 1e9, apart = 1e9;
      for (int i = 0; i < 4; ++i) {
        fused = std::min(fused, seconds_of([&] { ops::convolution(g, x, w, bias, summand, true); }));
        apart = std::min(apart, seconds_of([&] {
                           const Tensor y = ops::convolution(g, x, w, bias);
                           ops::relu(summand.defined() ? ops::add(y, summand) : y);
                         }));
      }
      std::cout << std::setw(12) << 1e3 * fused << std::setw(9) << 1e3 * apart << std::setw(7)
                << fused / apart << (summand.defined() ? "\n" : "  |");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("GFLOP/s of ResNet-18's convolutions", "bench_convolution");
  std::string dtype = "f32";
  int threads = 2;
  int64_t batch = 64;
  bool fused = false;
  try {
    app.add_option("--dtype", dtype, "f32 or bf16")->check(CLI::IsMember({"f32", "bf16"}));
    app.add_option("--threads", threads, "threads")->capture_default_str();
    app.add_option("--batch-size", batch, "images")->capture_default_str();
    app.add_flag("--fused", fused, "bias, sum and ReLU in the convolution and apart");
    app.parse(argc, argv);
    set_num_threads(threads);
    (fused ? measure_fused : measure)(dtype == "f32" ? f32 : bf16, batch);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const Error& error) {
    std::cerr << "bench_convolution: " << error.what() << "\n";
    return 1;
  }
}
