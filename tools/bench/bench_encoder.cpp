// Trains some steps of the encoder classifier on random texts, and prints speed, memory and loss as one JSON
// object: the counterpart of peer_encoder.py. A step is forward, backward and AdamW.
//
//     build/release/bin/bench/bench_encoder --steps 6 --skip 2 --dtype bf16

#include <json/json.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>

#include "autograd/functions/layers/loss.h"
#include "models/encoder_classifier.h"
#include "nn/materialize.h"
#include "nn/mixed_precision.h"
#include "optim/rules/adam.h"
#include "tensor/error.h"
#include "tensor/profile/op_table.h"
#include "tensor/profile/span.h"
#include "tensor/random/philox.h"
#include "tensor/random/random_context.h"
#include "tensor/threads/parallel.h"

namespace {

using namespace tessera;

struct Options {
  int64_t steps = 6, skip = 2, profiled = 0, batch_size = 32, length = 512;
  int threads = 2;
  double dropout = 0;
  std::string dtype = "f32";
};

Options parse(CLI::App& app, int argc, char** argv) {
  Options o;
  app.add_option("--steps", o.steps, "steps to take")->capture_default_str();
  app.add_option("--skip", o.skip, "first steps that are not measured")->capture_default_str();
  app.add_option("--profile-steps", o.profiled, "further steps that measure the time in each kernel");
  app.add_option("--batch-size", o.batch_size, "texts")->capture_default_str();
  app.add_option("--length", o.length, "tokens of a text")->capture_default_str();
  app.add_option("--dtype", o.dtype, "f32, or bf16 over f32 weights")->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--dropout", o.dropout, "of the whole model")->capture_default_str();
  app.add_option("--threads", o.threads, "threads")->capture_default_str();
  app.parse(argc, argv);
  require<ConfigError>(o.steps > o.skip && o.skip >= 0, "--steps ", o.steps, " --skip ", o.skip,
                       ": expected at least one step after those skipped");
  return o;
}

/// Random ids below `count`.
Tensor random_ids(const Shape& shape, int64_t count, uint64_t key) {
  const Tensor ids = Tensor::empty(shape, i64);
  for (int64_t i = 0; i < ids.numel(); ++i)
    ids.data<int64_t>()[i] = elementwise::random_block(key, static_cast<uint64_t>(i), 0, 0).word[0] % count;
  return ids;
}

Json::Value run(const Options& o) {
  set_num_threads(o.threads);
  models::EncoderClassifierOptions options = models::imdb_encoder();
  options.dropout = o.dropout;
  models::EncoderClassifier model(options);
  nn::materialize(model, cpu(), 1);
  if (o.dtype == "bf16") nn::use_mixed_precision(model, bf16);
  optim::AdamW adam(model.parameters(), {.lr = 2e-4});
  const Tensor ids = random_ids({o.batch_size, o.length}, options.vocabulary, 1),
               labels = random_ids({o.batch_size}, 2, 2);
  std::vector<double> seconds;
  double last_loss = 0;
  const auto step = [&](int64_t index) {
    const SpanScope span(SpanKind::step, "step", index + 1);
    begin_random_step(1, index, {});
    const auto begin = std::chrono::steady_clock::now();
    adam.zero_grad();
    Variable loss;
    {
      const SpanScope phase(SpanKind::phase, "forward");
      loss = cross_entropy(model(ids), labels);
    }
    {
      const SpanScope phase(SpanKind::phase, "backward");
      loss.backward();
    }
    const SpanScope phase(SpanKind::phase, "optimizer");
    adam.step();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    last_loss = loss.item();
  };
  for (int64_t i = 0; i < o.steps; ++i) step(i);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::sort(seconds.begin() + o.skip, seconds.end());
  Json::Value result;
  result["tokens_per_second"] = static_cast<double>(o.batch_size * o.length) /
                                seconds[static_cast<size_t>(o.skip + (o.steps - o.skip) / 2)];
  result["peak_rss_bytes"] = Json::Int64(usage.ru_maxrss) * 1024;
  result["loss"] = last_loss;
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
  CLI::App app("Speed and memory of training the encoder classifier, as one JSON object", "bench_encoder");
  try {
    const Json::Value result = run(parse(app, argc, argv));
    Json::StreamWriterBuilder builder;
    builder["indentation"] = "";
    std::cout << Json::writeString(builder, result) << "\n";
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const Error& error) {
    std::cerr << "bench_encoder: " << error.what() << "\n";
    return 1;
  }
}
