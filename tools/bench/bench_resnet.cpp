// Trains some steps of ResNet-18 on random images of 32 x 32, and prints speed, memory and losses as one JSON
// object: the counterpart of peer_resnet.py. A step is forward, backward and SGD with momentum.
//
//     build/release/bin/bench/bench_resnet --steps 6 --skip 2 --dtype bf16

#include <json/json.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>

#include "autograd/functions/layers/loss.h"
#include "models/resnet.h"
#include "nn/materialize.h"
#include "nn/mixed_precision.h"
#include "nn/save.h"
#include "optim/rules/sgd.h"
#include "tensor/channels_last.h"
#include "tensor/error.h"
#include "tensor/io/safetensors.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/profile/op_table.h"
#include "tensor/profile/span.h"
#include "tensor/random/philox.h"
#include "tensor/threads/parallel.h"

namespace {

using namespace tessera;

struct Options {
  int64_t steps = 6, skip = 2, profiled = 0, batch_size = 64, size = 32;
  int threads = 2;
  std::string dtype = "f32", start;
};

Options parse(CLI::App& app, int argc, char** argv) {
  Options o;
  app.add_option("--steps", o.steps, "steps to take")->capture_default_str();
  app.add_option("--skip", o.skip, "first steps that are not measured")->capture_default_str();
  app.add_option("--profile-steps", o.profiled, "further steps that measure the time in each kernel");
  app.add_option("--batch-size", o.batch_size, "images")->capture_default_str();
  app.add_option("--size", o.size, "rows and columns of an image")->capture_default_str();
  app.add_option("--dtype", o.dtype, "f32, or bf16 over f32 weights")->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--save-start", o.start,
                 "writes weights, images and labels here, for peer_resnet.py --start");
  app.add_option("--threads", o.threads, "threads")->capture_default_str();
  app.parse(argc, argv);
  require<ConfigError>(o.steps > o.skip && o.skip >= 0, "--steps ", o.steps, " --skip ", o.skip,
                       ": expected at least one step after those skipped");
  return o;
}

/// Random labels below `count`.
Tensor random_labels(int64_t n, int64_t count, uint64_t key) {
  const Tensor labels = Tensor::empty({n}, i64);
  for (int64_t i = 0; i < n; ++i)
    labels.data<int64_t>()[i] =
        elementwise::random_block(key, static_cast<uint64_t>(i), 0, 0).word[0] % count;
  return labels;
}

/// The weights, the running statistics, the images and the labels, as one file.
void save_start(const std::string& path, const models::ResNet& model, const Tensor& images,
                const Tensor& labels) {
  std::vector<NamedTensor> all{{"images", images}, {"labels", labels}};
  for (const NamedTensor& entry : model.state_dict()) all.push_back(entry);
  io::write_safetensors(path, all);
}

Json::Value run(const Options& o) {
  set_num_threads(o.threads);
  const models::ResNetOptions options = models::resnet18();
  models::ResNet model(options);
  nn::materialize(model, cpu(), 1);
  const Tensor labels = random_labels(o.batch_size, options.classes, 2);
  const Tensor images = Tensor::empty({o.batch_size, 3, o.size, o.size});
  init::normal(1).fill(images, 3, images.shape());
  if (!o.start.empty()) save_start(o.start, model, images, labels);
  if (o.dtype == "bf16") nn::use_mixed_precision(model, bf16);
  const Tensor input = in_layout(true, ops::cast(images, o.dtype == "bf16" ? bf16 : f32));
  optim::SGD sgd(model.parameters(), {.lr = 0.01, .momentum = 0.9});
  std::vector<double> seconds;
  Json::Value losses(Json::arrayValue);
  const auto step = [&](int64_t index) {
    const SpanScope span(SpanKind::step, "step", index + 1);
    const auto begin = std::chrono::steady_clock::now();
    sgd.zero_grad();
    Variable loss;
    {
      const SpanScope phase(SpanKind::phase, "forward");
      loss = cross_entropy(model(input), labels);
    }
    {
      const SpanScope phase(SpanKind::phase, "backward");
      loss.backward();
    }
    const SpanScope phase(SpanKind::phase, "optimizer");
    sgd.step();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    losses.append(loss.item());
  };
  for (int64_t i = 0; i < o.steps; ++i) step(i);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::sort(seconds.begin() + o.skip, seconds.end());
  Json::Value result;
  result["images_per_second"] =
      static_cast<double>(o.batch_size) / seconds[static_cast<size_t>(o.skip + (o.steps - o.skip) / 2)];
  result["peak_rss_bytes"] = Json::Int64(usage.ru_maxrss) * 1024;
  result["losses"] = losses;
  result["parameters"] = Json::Int64(models::parameter_count(options));
  if (o.profiled > 0) {
    Profiler profiler;
    {
      const ProfilerScope recording(profiler);
      for (int64_t i = 0; i < o.profiled; ++i) step(o.steps + i);
    }
    std::cerr << to_string(top_ops(profiler));
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Speed and memory of training ResNet-18, as one JSON object", "bench_resnet");
  try {
    const Json::Value result = run(parse(app, argc, argv));
    Json::StreamWriterBuilder builder;
    builder["indentation"] = "";
    std::cout << Json::writeString(builder, result) << "\n";
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const Error& error) {
    std::cerr << "bench_resnet: " << error.what() << "\n";
    return 1;
  }
}
