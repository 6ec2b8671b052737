// Generates text with a GPT of random weights and prints its speed: the counterpart of peer_generate.py. A
// turn decodes `--tokens` ids of every row after a prompt that was computed before the clock starts. For each
// line on the standard input it takes one turn and prints a JSON object, so that run_generate.py can
// alternate short turns of both sides. With `--forward` the forward of a training step, of the prompt's ids,
// is measured beside the prompt.
//
//     echo | build/release/bin/bench/bench_generate --preset gpt2 --dtype bf16 --batch 8
//     echo | build/release/bin/bench/bench_generate --prompt 480 --forward

#include <json/json.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <iostream>
#include <numeric>
#include <optional>

#include "autograd/grad_mode.h"
#include "models/presets.h"
#include "models/sampling.h"
#include "nn/materialize.h"
#include "tensor/profile/op_table.h"
#include "tensor/threads/parallel.h"
#include "tools/bench/turns.h"

namespace {

using namespace tessera;

struct Options {
  std::string preset = "width-768", dtype = "fp32", weights = "dtype";
  int64_t vocabulary = 0, batch = 1, prompt = 32, tokens = 16;
  int threads = 2;
  double temperature = 0.8;
  bool profile = false, forward = false;
};

void parse(CLI::App& app, Options& o, int argc, char** argv) {
  app.add_option("--preset", o.preset, "the model")->capture_default_str();
  app.add_option("--vocabulary", o.vocabulary, "token ids; by default 50257 for gpt2, else 65");
  app.add_option("--dtype", o.dtype, "fp32 or bf16")->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--weights", o.weights, "of linear layers and the head: dtype or int8")
      ->check(CLI::IsMember({"dtype", "int8"}));
  app.add_option("--batch", o.batch, "rows")->capture_default_str();
  app.add_option("--prompt", o.prompt, "ids of each row's prompt")->capture_default_str();
  app.add_option("--tokens", o.tokens, "ids that a turn draws for each row")->capture_default_str();
  app.add_option("--temperature", o.temperature, "0: the likeliest id")->capture_default_str();
  app.add_option("--threads", o.threads, "of the kernels")->capture_default_str();
  app.add_flag("--forward", o.forward, "measure a training step's forward of the prompt's ids as well");
  app.add_flag("--profile", o.profile, "print the time in each kernel of a further turn");
  app.parse(argc, argv);
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The sum of words that are read in `streams` parts, a line of each at a time, prefetched. With vectors of
/// the processor: with those of every x86 processor its instructions took longer than the memory. A rest is
/// not read.
template <int64_t streams>
[[gnu::target_clones("arch=x86-64-v4", "avx2", "default")]] uint64_t sum_of_lines(const uint64_t* from,
                                                                                  int64_t words) {
  constexpr int64_t words_of_line = 8, ahead = 1024;
  const int64_t length = words / streams / words_of_line * words_of_line;
  uint64_t sums[words_of_line] = {};
  for (int64_t i = 0; i < length; i += words_of_line)
    for (int64_t s = 0; s < streams; ++s) {
      const uint64_t* const at = from + s * length + i;
      __builtin_prefetch(at + ahead);
#pragma GCC unroll 8
      for (int64_t j = 0; j < words_of_line; ++j) sums[j] += at[j];
    }
  uint64_t sum = 0;
  for (const uint64_t part : sums) sum += part;
  return sum;
}

/// Reads what a step of decoding has to read of memory, and does nothing else with it.
class Reader {
 public:
  /// The parameters that a step of decoding reads: all of the table of tokens as the head alone, and a row of
  /// the positions, which does not count.
  explicit Reader(models::Gpt& gpt) {
    for (const auto& [name, parameter] : gpt.named_parameters()) {
      const bool is_head = !gpt.head && !gpt.wte.quantized_logits_weight();
      if (name == "wpe.weight" || (name == "wte.weight" && !is_head)) continue;
      if (!parameter.value().is_meta()) add(parameter.value());
    }
    const auto add_quantized = [this](const ops::QuantizedWeight* weight) {
      if (!weight) return;
      add(weight->values);
      add(weight->scales);
    };
    for (const nn::Module& module : gpt.modules())
      if (const auto* linear = module.as<nn::Linear>()) add_quantized(linear->quantized_weight());
    add_quantized(gpt.wte.quantized_logits_weight());
  }
  int64_t bytes() const { return bytes_; }

  /// The seconds that reading all of it takes, in all threads, by the faster of two ways: one stream, or four
  /// at a time.
  double read() { return std::min(read_by<1>(), read_by<4>()); }

 private:
  static constexpr int64_t step = 1 << 15;  // in words

  template <int64_t streams>
  double read_by() {
    const double began = seconds();
    parallel_for(std::ssize(ranges_), 1, [&](int64_t begin, int64_t end) {
      uint64_t sum = 0;
      for (int64_t r = begin; r < end; ++r)
        sum += sum_of_lines<streams>(ranges_[static_cast<size_t>(r)].first,
                                     ranges_[static_cast<size_t>(r)].second);
      sum_ += sum;
    });
    return seconds() - began;
  }

  void add(const Tensor& x) {
    const auto* const from = static_cast<const uint64_t*>(x.raw_data());
    const int64_t words = x.numel() * size_of(x.dtype()) / 8;
    for (int64_t i = 0; i < words; i += step) ranges_.push_back({from + i, std::min(step, words - i)});
    bytes_ += words * 8;
  }

  std::vector<std::pair<const uint64_t*, int64_t>> ranges_;
  int64_t bytes_ = 0;
  std::atomic<uint64_t> sum_{0};
};

class Turns {
 public:
  explicit Turns(const Options& o) : o_(o), gpt_(model_options(o)) {
    nn::materialize(gpt_, cpu(), 1);
    if (o.dtype == "bf16") gpt_.to(bf16);
    if (o.weights == "int8") gpt_.quantize_weights();
    gpt_.eval();
    reader_.emplace(gpt_);
    cache_ = gpt_.make_cache(o.batch);
    std::vector<int64_t> prompt(static_cast<size_t>(o.batch * o.prompt));
    for (size_t i = 0; i < prompt.size(); ++i)
      prompt[i] = static_cast<int64_t>(i) * 7919 % 1000003 % gpt_.o.vocabulary;
    const Tensor ids = Tensor::from(prompt, {std::ssize(prompt)});
    std::vector<double> prompts, forwards;
    for (int i = 0; i < (o.forward ? 12 : 4); ++i) {
      cache_.clear();
      double began = seconds();
      gpt_.next_logits(ids, cache_, std::vector<int64_t>(static_cast<size_t>(o.batch), o.prompt));
      prompts.push_back(seconds() - began);
      if (!o.forward) continue;
      const EnableGrad recorded;
      const Tensor rows = ids.view({o.batch, o.prompt});
      began = seconds();
      gpt_.loss(rows, rows);
      forwards.push_back(seconds() - began);
    }
    prompt_seconds_ = median_after_first(prompts);
    if (o.forward) forward_seconds_ = median_after_first(forwards);
  }

  Json::Value turn() {
    cache_.truncate(o_.prompt);
    std::vector<int64_t> rows(static_cast<size_t>(o_.batch)), ids(rows.size(), 1);
    std::iota(rows.begin(), rows.end(), 0);
    const models::SamplingOptions sampling{.temperature = o_.temperature};
    const double began = seconds();
    for (int64_t i = 0; i < o_.tokens; ++i) {
      const Variable logits = gpt_.next_logits(Tensor::from(ids, {o_.batch}), cache_);
      ids = models::draw(logits.value(), sampling, i, rows);
    }
    const double took = seconds() - began,
                 read = std::min({reader_->read(), reader_->read(), reader_->read()});
    const auto steps = static_cast<double>(o_.tokens), bytes = static_cast<double>(reader_->bytes());
    Json::Value result;
    result["program"] = "bench_generate";
    result["tokens_per_second"] = static_cast<double>(o_.batch) * steps / took;
    result["step_ms"] = 1e3 * took / steps;
    result["prompt_tokens_per_second"] = static_cast<double>(o_.batch * o_.prompt) / prompt_seconds_;
    if (o_.forward)
      result["forward_tokens_per_second"] = static_cast<double>(o_.batch * o_.prompt) / forward_seconds_;
    result["weight_bytes"] = Json::Int64(reader_->bytes());
    result["weights_gb_per_second"] = bytes * steps / took / 1e9;
    result["read_gb_per_second"] = bytes / read / 1e9;
    result["share_of_read_rate"] = read * steps / took;
    return result;
  }

  void profile() {
    Profiler profiler;
    {
      const ProfilerScope recording(profiler);
      turn();
    }
    std::cerr << to_string(top_ops(profiler));
  }

 private:
  /// The first time allocates.
  static double median_after_first(std::vector<double> values) {
    values.erase(values.begin());
    std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
    return values[values.size() / 2];
  }

  static models::GptOptions model_options(const Options& o) {
    const int64_t vocabulary = o.vocabulary > 0 ? o.vocabulary : o.preset == "gpt2" ? 50257 : 65;
    models::GptOptions options = models::preset(o.preset, vocabulary).model;
    options.vocabulary = vocabulary;
    options.dropout = 0;
    return options;
  }

  const Options& o_;
  models::Gpt gpt_;
  std::optional<Reader> reader_;
  models::GptCache cache_;
  double prompt_seconds_ = 0, forward_seconds_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Speed of generating text, as a JSON object for each line of the standard input",
               "bench_generate");
  try {
    Options options;
    parse(app, options, argc, argv);
    set_num_threads(options.threads);
    const NoGrad no_grad;
    Turns turns(options);
    turns.turn();  // the first one allocates
    if (options.profile) turns.profile();
    Json::StreamWriterBuilder builder;
    builder["indentation"] = "";
    bench::bind_main_thread();
    for (std::string line; std::getline(std::cin, line);)
      std::cout << Json::writeString(builder, turns.turn()) << std::endl;
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const Error& error) {
    std::cerr << "bench_generate: " << error.what() << "\n";
    return 2;
  }
}
