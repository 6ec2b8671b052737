// Trains steps of the LSTM language model on random tokens, and prints speed and memory as one JSON object:
// the counterpart of peer_lstm.py. A step is forward, backward and AdamW; `--dtype bf16` computes under
// autocast.
//
//     build/release/bin/bench/bench_lstm --dtype bf16 --steps 10

#include <json/json.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <numeric>

#include "autograd/autocast/autocast.h"
#include "dist/train/plan/peak_memory.h"
#include "dist/train/profile/wall_clock.h"
#include "models/lstm_lm.h"
#include "nn/materialize.h"
#include "optim/rules/adam.h"
#include "tensor/profile/op_table.h"
#include "tensor/profile/span.h"
#include "tensor/threads/parallel.h"

namespace {

using namespace tessera;

struct Options {
  models::LstmLmOptions model{.vocabulary = 10000};
  std::string dtype = "fp32";
  int64_t batch = 32, time = 64, steps = 10, skip = 2, profiled = 0;
  int threads = 2;
};

void parse(CLI::App& app, Options& o, int argc, char** argv) {
  app.add_option("--vocabulary", o.model.vocabulary, "token ids")->capture_default_str();
  app.add_option("--width", o.model.width, "features")->capture_default_str();
  app.add_option("--layers", o.model.layers, "layers of the LSTM")->capture_default_str();
  app.add_option("--dtype", o.dtype, "fp32, or bf16 by autocast")->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--batch-size", o.batch, "sequences")->capture_default_str();
  app.add_option("--block-size", o.time, "tokens of a sequence")->capture_default_str();
  app.add_option("--steps", o.steps, "steps to take")->capture_default_str();
  app.add_option("--skip", o.skip, "steps before the clock starts")->capture_default_str();
  app.add_option("--threads", o.threads, "of the kernels")->capture_default_str();
  app.add_option("--profile-steps", o.profiled, "further steps that measure the time in each kernel");
  app.parse(argc, argv);
}

/// Token n of a batch: the same as in peer_lstm.py.
Tensor tokens(const Options& o, int64_t first) {
  const Tensor ids = Tensor::empty({o.batch, o.time}, i64);
  for (int64_t i = 0; i < ids.numel(); ++i)
    ids.data<int64_t>()[i] = (first + i * 7919) * 104729 % 1000003 % o.model.vocabulary;
  return ids;
}

double step(models::LstmLm& model, optim::AdamW& adam, const Options& o, int64_t number) {
  SpanScope span(SpanKind::step, "step", number);
  const Tensor x = tokens(o, number), y = tokens(o, number + 1);
  Variable loss;
  {
    const AutocastScope autocast(o.dtype == "bf16" ? bf16 : f32);
    loss = model.loss(x, y);
  }
  loss.backward();
  adam.step();
  adam.zero_grad();
  return loss.value().item();
}

Json::Value measure(const Options& o) {
  models::LstmLm model(o.model);
  nn::materialize(model, cpu(), 1);
  optim::AdamW adam(model.parameters(), {.lr = 1e-3});
  std::vector<double> seconds;
  double loss = 0;
  for (int64_t i = 0; i < o.steps; ++i) {
    const double began = training::profile_seconds();
    loss = step(model, adam, o, i);
    if (i >= o.skip) seconds.push_back(training::profile_seconds() - began);
  }
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  const auto count = static_cast<double>(seconds.size());
  const double rate = static_cast<double>(o.batch * o.time) * count / sum;
  Json::Value result;
  result["program"] = "bench_lstm";
  result["dtype"] = o.dtype;
  result["threads"] = num_threads();
  result["vocabulary"] = Json::Int64(o.model.vocabulary);
  result["parameters"] = Json::Int64(models::parameter_count(o.model));
  result["loss"] = loss;
  result["tokens_per_second"] = rate;
  result["mean_step_ms"] = 1e3 * sum / count;
  result["gflops"] = rate * static_cast<double>(models::flops_per_token(o.model)) / 1e9;
  result["peak_rss_bytes"] = Json::Int64(training::peak_resident_bytes());
  if (o.profiled > 0) {
    Profiler profiler;
    {
      const ProfilerScope recording(profiler);
      for (int64_t i = 0; i < o.profiled; ++i) step(model, adam, o, i);
    }
    std::cerr << to_string(top_ops(profiler));
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Speed and memory of training the LSTM language model, as one JSON object", "bench_lstm");
  try {
    Options options;
    parse(app, options, argc, argv);
    set_num_threads(options.threads);
    Json::StreamWriterBuilder builder;
    builder["indentation"] = "";
    std::cout << Json::writeString(builder, measure(options)) << std::endl;
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const Error& error) {
    std::cerr << "bench_lstm: " << error.what() << "\n";
    return 2;
  }
}
