// The kernels of a CUDA device at sizes of a GPT: for each case what it must move and compute, and on a card
// the time of a call. On the simulated card no time is printed; tools/cuda_report --simulate joins the
// cases with the counts that the card makes of each kernel.
//
//     build/release/bin/bench/bench_device --device cuda:sim --case "layer norm"
//     build/release/bin/bench/bench_device --device cuda --repeat 50
//
// A line of JSON for each case: {"case", "size", "device", "simulated", "ops": [{"name", "calls", "bytes",
// "flops"}], "seconds"}. Bytes are the least that is moved, each operand of an operation once; FLOPs are
// those of products and attention.

#include <json/json.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/layers/attention.h"
#include "autograd/functions/layers/dropout.h"
#include "autograd/functions/layers/loss.h"
#include "autograd/functions/layers/normalization.h"
#include "autograd/functions/layers/softmax.h"
#include "autograd/functions/matmul.h"
#include "nn/layers/containers.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/clip.h"
#include "optim/rules/adam.h"
#include "tensor/cuda/backend.h"
#include "tensor/error.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/indexing/sorting.h"
#include "tensor/ops/reduction.h"
#include "tensor/profile/op_table.h"
#include "tensor/profile/profiler.h"

namespace {

using namespace tessera;

/// A case is prepared on the CPU and copied to the device, so that only its own kernels run there.
struct Case {
  std::string name, size;
  std::function<std::function<void()>(Device)> prepare;
};

Tensor normal(const Shape& shape, DType dtype, Device device) {
  return ops::cast(randn(shape), dtype).to(device);
}

Variable leaf(const Shape& shape, DType dtype, Device device) {
  Variable x(normal(shape, dtype, device));
  x.set_requires_grad(true);
  return x;
}

/// A function of leaves and its backward, with a gradient of ones that is made before.
template <class Function>
std::function<void()> with_backward(const Shape& shape, DType dtype, Device device, Function function) {
  const Tensor gradient = ops::ones(shape, dtype).to(device);
  return [gradient, function] { function().backward(gradient); };
}

std::vector<Case> elementwise_cases() {
  return {
      {"add", "1024 x 3072 bf16",
       [](Device d) {
         const Tensor a = normal({1024, 3072}, bf16, d), b = normal({1024, 3072}, bf16, d);
         return [=] { add(a, b); };
       }},
      {"gelu", "1024 x 3072 bf16",
       [](Device d) {
         const Variable x = leaf({1024, 3072}, bf16, d);
         return with_backward({1024, 3072}, bf16, d, [=] { return gelu_tanh(x); });
       }},
      {"cast", "1024 x 3072 f32 to bf16",
       [](Device d) {
         const Tensor x = normal({1024, 3072}, f32, d);
         return [=] { ops::cast(x, bf16); };
       }},
      {"transposed copy", "1024 x 3072 bf16",
       [](Device d) {
         const Tensor x = normal({1024, 3072}, bf16, d);
         return [=] { x.transpose(0, 1).contiguous(); };
       }},
      {"dropout", "1024 x 768 bf16",
       [](Device d) {
         const Variable x = leaf({1024, 768}, bf16, d);
         return with_backward({1024, 768}, bf16, d, [=] { return dropout(x, 0.1, 7); });
       }},
  };
}

std::vector<Case> row_cases() {
  return {
      {"sum of rows", "1024 x 3072 f32",
       [](Device d) {
         const Tensor x = normal({1024, 3072}, f32, d);
         return [=] { ops::sum(x, {1}); };
       }},
      {"sum of columns", "1024 x 3072 f32",
       [](Device d) {
         const Tensor x = normal({1024, 3072}, f32, d);
         return [=] { ops::sum(x, {0}); };
       }},
      {"softmax", "1024 x 1024 bf16",
       [](Device d) {
         const Variable x = leaf({1024, 1024}, bf16, d);
         return with_backward({1024, 1024}, bf16, d, [=] { return softmax(x); });
       }},
      {"layer norm", "1024 x 768 bf16",
       [](Device d) {
         const Variable x = leaf({1024, 768}, bf16, d), w = leaf({768}, bf16, d), b = leaf({768}, bf16, d);
         return with_backward({1024, 768}, bf16, d, [=] { return layer_norm(x, w, b); });
       }},
      {"rms norm", "1024 x 768 bf16",
       [](Device d) {
         const Variable x = leaf({1024, 768}, bf16, d), w = leaf({768}, bf16, d);
         return with_backward({1024, 768}, bf16, d, [=] { return rms_norm(x, w); });
       }},
      {"cross entropy", "256 x 50304 bf16",
       [](Device d) {
         const Variable x = leaf({256, 50304}, bf16, d);
         const Tensor targets = randint(0, 50304, {256}).to(d);
         return with_backward({}, f32, d, [=] { return cross_entropy(x, targets); });
       }},
      {"embedding", "1024 of 50304 x 768 bf16",
       [](Device d) {
         const Variable table = leaf({50304, 768}, bf16, d);
         const Tensor ids = randint(0, 50304, {1024}).to(d);
         return with_backward({1024, 768}, bf16, d, [=] { return embedding(ids, table); });
       }},
      {"argmax", "1024 x 3072 f32",
       [](Device d) {
         const Tensor x = normal({1024, 3072}, f32, d);
         return [=] { ops::argmax(x, 1); };
       }},
      {"cumsum", "1024 x 1024 f32",
       [](Device d) {
         const Tensor x = normal({1024, 1024}, f32, d);
         return [=] { ops::cumsum(x, 1); };
       }},
      {"sort", "16 x 16384 f32",
       [](Device d) {
         const Tensor x = normal({16, 16384}, f32, d);
         return [=] { ops::sort(x); };
       }},
  };
}

std::vector<Case> product_cases() {
  return {
      {"linear", "1024 x 768 by 3072 x 768 bf16",
       [](Device d) {
         const Variable x = leaf({1024, 768}, bf16, d), w = leaf({3072, 768}, bf16, d),
                        b = leaf({3072}, bf16, d);
         return with_backward({1024, 3072}, bf16, d, [=] { return linear(x, w, b); });
       }},
      {"attention", "1 x 12 x 512 x 64 bf16, causal",
       [](Device d) {
         const Variable q = leaf({1, 12, 512, 64}, bf16, d), k = leaf({1, 12, 512, 64}, bf16, d),
                        v = leaf({1, 12, 512, 64}, bf16, d);
         return with_backward({1, 12, 512, 64}, bf16, d,
                              [=] { return scaled_dot_product_attention(q, k, v, {.causal = true}); });
       }},
      {"attention f32", "1 x 12 x 256 x 64 f32, causal",
       [](Device d) {
         const Variable q = leaf({1, 12, 256, 64}, f32, d), k = leaf({1, 12, 256, 64}, f32, d),
                        v = leaf({1, 12, 256, 64}, f32, d);
         return with_backward({1, 12, 256, 64}, f32, d,
                              [=] { return scaled_dot_product_attention(q, k, v, {.causal = true}); });
       }},
  };
}

/// An optimizer's step over the parameters of a network, whose gradients are there.
std::vector<Case> training_cases() {
  struct Network {
    nn::Sequential layers{nn::Linear(768, 768), nn::Linear(768, 768), nn::Linear(768, 100),
                          nn::Linear(100, 31)};
    std::unique_ptr<optim::AdamW> adam;
    explicit Network(Device device) {
      nn::materialize(layers, cpu(), 1);
      layers.to(device);
      for (const NamedParameter& p : layers.parameters())
        p.variable.set_grad(normal(p.variable.shape(), f32, device));
      adam = std::make_unique<optim::AdamW>(layers.parameters(), optim::AdamWOptions{.lr = 1e-3});
    }
  };
  return {{"AdamW", "1.26 M parameters in 8 tensors",
           [](Device d) {
             const auto network = std::make_shared<Network>(d);
             return [=] { network->adam->step(); };
           }},
          {"clipping", "1.26 M parameters in 8 tensors", [](Device d) {
             const auto network = std::make_shared<Network>(d);
             return [=] { optim::clip_grad_norm(network->layers.parameters(), 1.0); };
           }}};
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (auto cases : {elementwise_cases(), row_cases(), product_cases(), training_cases()})
    std::move(cases.begin(), cases.end(), std::back_inserter(all));
  return all;
}

/// The least time of a call, over `repeat` measurements of ten calls each.
double seconds_of(const std::function<void()>& run, Device device, int repeat) {
  double least = 1e9;
  for (int i = 0; i < repeat; ++i) {
    synchronize(device);
    const auto begin = std::chrono::steady_clock::now();
    for (int call = 0; call < 10; ++call) run();
    synchronize(device);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    least = std::min(least, taken.count() / 10);
  }
  return least;
}

void report(const Case& one, Device device, int repeat) {
  const std::function<void()> run = one.prepare(device);
  synchronize(device);
  Profiler profiler;
  {
    const ProfilerScope scope(profiler);
    run();
  }
  synchronize(device);
  Json::Value line;
  line["case"] = one.name;
  line["size"] = one.size;
  line["device"] = to_string(device);
  line["simulated"] = cuda_backend::is_simulated();
  line["ops"] = Json::arrayValue;
  for (const OpTotal& op : top_ops(profiler).ops) {
    Json::Value entry;
    entry["name"] = op.name;
    entry["calls"] = Json::Int64(op.calls);
    entry["bytes"] = Json::Int64(op.bytes);
    entry["flops"] = Json::Int64(op.flops);
    line["ops"].append(entry);
  }
  if (!cuda_backend::is_simulated()) line["seconds"] = seconds_of(run, device, repeat);
  Json::StreamWriterBuilder writer;
  writer["indentation"] = "";
  std::cout << Json::writeString(writer, line) << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The kernels of a CUDA device: what they move and compute, and on a card their times");
  std::string device_name = "cuda:sim", only;
  int repeat = 20;
  bool lists = false;
  app.add_option("--device", device_name, "cuda[:i], or cuda:sim, which prints no times")
      ->capture_default_str();
  app.add_option("--case", only, "this case alone");
  app.add_option("--repeat", repeat, "measurements of ten calls, of which the least counts")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_flag("--list", lists, "prints the names of the cases");
  CLI11_PARSE(app, argc, argv);
  const std::vector<Case> cases = all_cases();
  if (lists) {
    for (const Case& one : cases) std::cout << one.name << '\n';
    return 0;
  }
  if (!only.empty() && std::ranges::find(cases, only, &Case::name) == cases.end()) {
    std::cerr << "bench_device: no case '" << only << "'; --list prints their names\n";
    return 2;
  }
  try {
    const Device device = parse_device(device_name);
    require<ConfigError>(device.is_cuda(), "--device ", device_name, ": expected a CUDA device");
    for (const Case& one : cases)
      if (only.empty() || one.name == only) report(one, device, repeat);
  } catch (const Error& error) {
    std::cerr << "bench_device: " << error.what() << '\n';
    return 2;
  }
}
