#include <doctest/doctest.h>

#include <cmath>

#include "models/sampling.h"
#include "nn/materialize.h"
#include "tests/tools/gptlite_program.h"

using namespace tessera;
using namespace tessera::models;

TEST_CASE(
    "gptlite sample: with and without the cache the likeliest text is the same, also beyond the block") {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  REQUIRE(::gptlite(tiny_training(out, {"--steps", "60", "--lr", "0.01", "--quiet"})).status == 0);
  const auto sample = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"sample", "--checkpoint", out, "--length", "60"});
    const Outcome outcome = ::gptlite(more);
    REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
    return outcome.out;
  };
  const std::string cached = sample({"--temperature", "0", "--prompt", "the"});
  CHECK(cached.rfind("the", 0) == 0);
  CHECK(cached.size() == 3 + 60 + 1);  // the prompt, the text, the end of the line
  CHECK(sample({"--temperature", "0", "--prompt", "the", "--no-cache"}) == cached);
  CHECK(sample({"--top-k", "1", "--prompt", "the"}) == cached);  // one candidate: the likeliest
  const std::string drawn = sample({"--seed", "5"});
  CHECK(sample({"--seed", "5"}) == drawn);
  CHECK(sample({"--seed", "6"}) != drawn);
  // A prompt longer than the block: its last characters count.
  CHECK(sample({"--temperature", "0", "--prompt", std::string(40, 'e')}).size() == 40 + 60 + 1);
}

TEST_CASE("draw: frequencies are those of softmax(logits / temperature) over the top k") {
  const Tensor logits = Tensor::from({1.0, 0.0, 2.0, -1.0});
  constexpr int draws = 20000;
  const auto frequencies = [&](const SamplingOptions& options) {
    std::vector<double> counts(4);
    for (int64_t i = 0; i < draws; ++i) counts[static_cast<size_t>(draw(logits, options, i))] += 1.0 / draws;
    return counts;
  };
  const auto check = [](const std::vector<double>& found, std::vector<double> weights) {
    double total = 0;
    for (const double weight : weights) total += weight;
    for (size_t i = 0; i < weights.size(); ++i) {
      const double p = weights[i] / total;
      CHECK(std::abs(found[i] - p) <= 5 * std::sqrt(p * (1 - p) / draws));  // five standard deviations
    }
  };
  check(frequencies({.temperature = 1}), {std::exp(1.0), 1, std::exp(2.0), std::exp(-1.0)});
  check(frequencies({.temperature = 2}), {std::exp(0.5), 1, std::exp(1.0), std::exp(-0.5)});
  check(frequencies({.temperature = 1, .top_k = 2}), {std::exp(1.0), 0, std::exp(2.0), 0});
  CHECK(draw(logits, {.temperature = 0}, 3) == 2);
}

TEST_CASE("gptlite info: parameters, FLOPs and bytes of the presets") {
  const auto info = [](const std::string& preset) {
    const Outcome outcome = ::gptlite({"info", "--preset", preset});
    REQUIRE(outcome.status == 0);
    return outcome.out;
  };
  const std::string gpt_lite = info("gpt-lite");
  CHECK(contains(gpt_lite, "86,701,056, of which 7,085,568 a block"));
  CHECK(contains(gpt_lite, "346.8 MB"));  // 4 bytes each
  CHECK(contains(gpt_lite, "693.6 MB"));  // two means each
  CHECK(contains(info("nano-cpu"), "804,096"));
  CHECK(contains(info("nano-cpu"), "5,168,640 to train"));
  CHECK(contains(info("nano"), "10,745,088"));
  CHECK(contains(info("gpt2"), "124,475,904"));
}
