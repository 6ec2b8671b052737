#include "tools/tessera/estimate.h"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "tensor/error.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using tools::EstimateFlags;

namespace {

std::string estimate(const EstimateFlags& flags) {
  std::ostringstream out;
  tools::estimate_memory(flags, out);
  return out.str();
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Outcome {
  int status;
  std::string out, err;
};

Outcome call(const std::string& arguments) {
  const TemporaryFolder folder;
  const std::string command = "'" TESSERA_PROGRAM_DIR "/tessera' estimate " + arguments + " > '" +
                              (folder / "out") + "' 2> '" + (folder / "err") + "' < /dev/null";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(folder / "out"), text_of(folder / "err")};
}

/// The text up to the peak of a step, which alone depends on the batch.
std::string tables_of(const std::string& text) {
  return text.substr(0, text.find("\nPeak of a training step"));
}

}  // namespace

TEST_CASE("estimate: GPT-lite on 8 GPUs has the printed figures") {
  const std::string text = estimate({});
  for (const char* line :
       {"gpt-lite, vocabulary 65: 86,701,056 parameters, the largest layer has 2,362,368\n",
        "Native model parameters size: 0.323GB.\n", " |   0.161GB | offload_optimizer=cpu\n",
        " |   0.484GB | offload_optimizer=none\n",
        " |   0.009GB | offload_param=cpu , offload_optimizer=cpu , zero_init=1\n",
        " |   0.190GB | offload_param=none, offload_optimizer=none, zero_init=1\n",
        "Memory usage for loading `gpt-lite`\n",
        "  float32 |       9.01 MB |  330.74 MB |             1.29 GB\n",
        "Tessera, each of 8 ranks, in f32 with AdamW\n", "batch 1 x 2048 tokens"})
    CHECK_MESSAGE(contains(text, line), line, "\n", text);
  CHECK(contains(estimate({.decimals = 2}), "Native model parameters size: 0.32GB.\n"));
}

TEST_CASE("estimate: pipeline stages, with embeddings as a function or a layer, and stages of some blocks") {
  const std::string plain = estimate({.pipeline_stages = 4});
  CHECK(contains(plain, "  stage 0, layers [0, 4)   | 21256704 | 0.079GB |"));
  CHECK(contains(plain, "  stage 3, layers [10, 16) | 21308160 | 0.079GB |"));
  const std::string specs = estimate({.pipeline_stages = 4, .spec_layers = true, .stage_blocks = {2, 3}});
  CHECK(contains(specs, "  stage 0, layers [0, 4)   | 22879488 | 0.085GB |"));
  CHECK(contains(specs, "  stage 3, layers [10, 15) | 21308160 | 0.079GB |"));
  CHECK(contains(
      specs,
      "  a stage of 2 blocks      | 14171136 | 0.053GB |        0.026GB | 0.079GB |        0.009GB | "
      "0.038GB\n"));
  CHECK(contains(specs, "  a stage of 3 blocks      | 21256704 | 0.079GB |"));
}

TEST_CASE("estimate: the tables do not change with the batch size, the peak of a step does") {
  const EstimateFlags one{.preset = "nano-cpu", .batch_size = 1},
      many{.preset = "nano-cpu", .batch_size = 16};
  const std::string a = estimate(one), b = estimate(many);
  CHECK(tables_of(a) == tables_of(b));
  CHECK(a != b);
  CHECK(contains(b, "batch 16 x 64 tokens"));
}

TEST_CASE("estimate: bad input is one line and exit status 2, and prints nothing else") {
  struct BadInput {
    const char *arguments, *message;
  };
  const BadInput inputs[] = {{"--preset gpt-five", "preset 'gpt-five' is unknown"},
                             {"--parameters -5", "got -5"},
                             {"--parameters 5 --largest-layer -1", "got -1"},
                             {"--parameters 5 --largest-layer 6", "more than the 5"},
                             {"--gpus-per-node 0", "got 0 and 1"},
                             {"--nodes -1", "got 8 and -1"},
                             {"--dtypes float7", "'float7'"},
                             {"--vocabulary -1", "--vocabulary"},
                             {"--batch-size 0", "--batch-size"},
                             {"--decimals 0", "--decimals"},
                             {"--buffer-factor -1", "above 0"},
                             {"--pipeline-num-stages -2", "--pipeline-num-stages"},
                             {"--pipeline-num-stages 17", "a layer for each of 17 stages"},
                             {"--stage-blocks 13", "got 13"},
                             {"--parameters 5 --stage-blocks 1", "--preset"},
                             {"--parameters 5 --preset nano", "excludes"},
                             {"--largest-layer 5", "--parameters"},
                             {"--parameters x", "x"},
                             {"--gpu-per-node 8", "did you mean '--gpus-per-node'?"}};
  for (const BadInput& input : inputs) {
    const Outcome outcome = call(input.arguments);
    CAPTURE(input.arguments);
    CAPTURE(outcome.err);
    CHECK(outcome.status == 2);
    CHECK(outcome.out == "");
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    CHECK(contains(outcome.err, input.message));
  }
}

TEST_CASE("estimate: the program prints tables of numbers, and takes both spellings of pipeline flags") {
  const Outcome numbers =
      call("--parameters 2851598336 --largest-layer 32899072 --decimals 2 --dtypes float32 int8");
  CHECK(numbers.status == 0);
  CHECK(contains(numbers.out, "  127.48GB |  15.93GB | offload_optimizer=none\n"));
  CHECK(contains(numbers.out,
                 "    1.47GB |   6.10GB | offload_param=none, offload_optimizer=none, zero_init=1\n"));
  CHECK(contains(numbers.out, "  int8    |"));
  CHECK_FALSE(contains(numbers.out, "float16"));
  CHECK_FALSE(contains(numbers.out, "Tessera, each"));
  const Outcome underscores = call("--preset gpt-lite --pipeline_num_stages 4 --pipeline_spec_layers");
  CHECK(underscores.status == 0);
  CHECK(contains(underscores.out, "stage 3, layers [10, 15)"));
  CHECK(call("--help").status == 0);
}
