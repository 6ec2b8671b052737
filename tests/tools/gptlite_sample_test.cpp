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

TEST_CASE(
    "gptlite sample: several rows, of one prompt and of a file's lines; the text ends after a stop "
    "character") {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  REQUIRE(::gptlite(tiny_training(out, {"--steps", "60", "--lr", "0.01", "--quiet"})).status == 0);
  const auto sample = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"sample", "--checkpoint", out, "--length", "60"});
    const Outcome outcome = ::gptlite(more);
    REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
    return outcome.out;
  };
  const auto rows_of = [](const std::string& printed) {  // the texts after the lines "--- row R"
    std::vector<std::string> rows;
    for (size_t at = 0; at < printed.size();) {
      const std::string header = "--- row " + std::to_string(rows.size()) + "\n";
      REQUIRE(printed.compare(at, header.size(), header) == 0);
      const std::string next = "--- row " + std::to_string(rows.size() + 1) + "\n";
      const size_t begin = at + header.size(), end = std::min(printed.find(next, begin), printed.size());
      rows.push_back(printed.substr(begin, end - begin));
      at = end;
    }
    return rows;
  };
  const std::vector<std::string> three = rows_of(sample({"--prompt", "the", "--batch", "3"}));
  REQUIRE(three.size() == 3);
  CHECK(three[0] == sample({"--prompt", "the"}));
  for (const std::string& row : three) CHECK((row.rfind("the", 0) == 0 && row.size() == 3 + 60 + 1));
  CHECK((three[1] != three[0] && three[2] != three[0] && three[2] != three[1]));
  CHECK(rows_of(sample({"--prompt", "the", "--batch", "3", "--no-cache"})) == three);
  std::ofstream(folder / "prompts") << "the\na\nno more of it\n";
  const std::vector<std::string> lines =
      rows_of(sample({"--prompts", folder / "prompts", "--batch", "2", "--temperature", "0"}));
  REQUIRE(lines.size() == 6);
  for (size_t row = 0; row < 6; ++row) {
    const std::string prompt = std::vector<std::string>{"the", "a", "no more of it"}[row / 2];
    CHECK(lines[row] == sample({"--prompt", prompt, "--temperature", "0"}));
  }
  const std::string whole = sample({"--prompt", "the"});
  const std::string stopped = sample({"--prompt", "the", "--stop", whole.substr(10, 1)});
  CHECK(stopped == whole.substr(0, whole.find(whole[10], 3) + 1) + "\n");
  CHECK(sample({"--prompt", "the", "--top-p", "0.000001"}) ==
        sample({"--prompt", "the", "--temperature", "0"}));
}

TEST_CASE("gptlite sample: weights of int8, alone and in a batch, with either dtype") {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  REQUIRE(::gptlite(tiny_training(out, {"--steps", "60", "--lr", "0.01", "--quiet"})).status == 0);
  const auto sample = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"sample", "--checkpoint", out, "--length", "60", "--prompt", "the"});
    const Outcome outcome = ::gptlite(more);
    REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
    return outcome.out;
  };
  const std::string text = sample({"--weights", "int8"});
  CHECK((text.rfind("the", 0) == 0 && text.size() == 3 + 60 + 1));
  CHECK(sample({"--weights", "int8"}) == text);
  CHECK(sample({"--weights", "dtype"}) == sample({}));
  CHECK(sample({"--weights", "int8", "--batch", "2"}).rfind("--- row 0\n" + text, 0) == 0);
  CHECK(sample({"--weights", "int8", "--dtype", "bf16"}).size() == text.size());
  CHECK(sample({"--weights", "int8", "--no-cache"}).size() == text.size());
}

TEST_CASE("gptlite sample: bad input ends with 2 and a line that names the flag") {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  REQUIRE(::gptlite(tiny_training(out, {"--steps", "2", "--quiet"})).status == 0);
  std::ofstream(folder / "empty").flush();
  std::ofstream(folder / "gap") << "the\n\na\n";
  std::ofstream(folder / "foreign") << "the\n~~\n";
  struct Refusal {
    std::vector<std::string> flags;
    std::string text;
  };
  const Refusal refusals[] = {
      {{"--batch", "0"}, "--batch: expected a whole number from 1 to 65536, got 0"},
      {{"--batch", "many"}, "--batch"},
      {{"--top-p", "0"}, "top_p 0: expected above 0, at most 1"},
      {{"--top-p", "1.5"}, "--top-p: expected a number from 0 to 1, got 1.5"},
      {{"--stop", "~"}, "--stop"},
      {{"--weights", "int4"}, "--weights"},
      {{"--weights", "int8", "--dtype", "fp16"}, "--weights int8: expected --dtype fp32 or bf16, got fp16"},
      {{"--prompts", folder / "none"}, "none': cannot be opened: No such file or directory"},
      {{"--prompts", folder / "empty"}, "empty' is empty: expected a prompt in each line"},
      {{"--prompts", folder / "gap"}, "gap', line 2 is empty: expected at least one character"},
      {{"--prompts", folder / "foreign"}, "foreign', line 2"},
      {{"--prompts", folder / "gap", "--prompt", "a"}, "--prompt and --prompts: expected one of them"},
  };
  for (const Refusal& refusal : refusals) {
    std::vector<std::string> arguments{"sample", "--checkpoint", out};
    arguments.insert(arguments.end(), refusal.flags.begin(), refusal.flags.end());
    const Outcome outcome = ::gptlite(arguments);
    CAPTURE(outcome.err);
    CHECK(outcome.status == 2);
    CHECK(outcome.out == "");
    CHECK(is_one_error_line(outcome.err));
    CHECK_MESSAGE(contains(outcome.err, refusal.text), "expected the text ", refusal.text);
  }
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
