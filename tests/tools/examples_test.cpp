#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "tests/support/environment.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/child_process.h"

// The programs in tools/examples, run as a reader would, and the chapter that quotes them.

namespace {

const std::filesystem::path folder_of_examples =
    std::filesystem::path(TESSERA_TEST_DATA_DIR).parent_path() / "tools/examples";

std::string source_of(const std::string& name) {
  return file_bytes(folder_of_examples / name);
}

/// What an example prints.
std::string output_of(const std::string& name, const std::vector<std::string>& arguments) {
  const TemporaryFolder folder;
  ChildProcess program(TESSERA_PROGRAM_DIR "/examples/" + name, arguments, {.output = folder / "out"});
  const int status = program.wait();
  const std::string output = file_bytes(folder / "out");
  CHECK_MESSAGE(status == 0, output);
  return output;
}

/// The numbers after "loss" in an example's lines.
std::vector<double> losses_in(const std::string& output) {
  std::vector<double> losses;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);)
    if (const size_t at = line.find("  loss "); line.starts_with("step ") && at != line.npos)
      losses.push_back(std::stod(line.substr(at + 7)));
  return losses;
}

int64_t lines_of(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

}  // namespace

TEST_CASE("examples: spirals learns to tell the spirals apart, and repeats its loss") {
  const std::string output = output_of("spirals", {"300"});
  REQUIRE(contains(output, "loss of the last epoch: "));
  const double loss = std::stod(output.substr(output.rfind(' ')));
  CHECK(loss < 0.15);  // ln 3 = 1.0986 for a model that knows nothing
  CHECK(output_of("spirals", {"300"}) == output);
}

TEST_CASE("examples: the GPT by the Trainer and the one by hand print the same losses and the same text") {
  const std::string by_trainer = output_of("char_gpt", {"30"});
  const std::vector<double> losses = losses_in(by_trainer);
  REQUIRE(losses.size() == 10);
  CHECK(losses.back() < 2.9);  // more than 3.8 for a model that knows nothing of this text
  CHECK(output_of("char_gpt_by_hand", {"30"}) == by_trainer);
}

TEST_CASE("examples: the GPT trains on a file; a file that is not there is one line") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 400; ++i) text += "the quick brown fox jumps over the lazy dog. ";
  const std::string file = folder.write("text.txt", text);
  const std::string output = output_of("char_gpt_by_hand", {"40", file});
  const std::vector<double> losses = losses_in(output);
  REQUIRE(losses.size() == 10);
  CHECK(losses.back() < 2.5);
  CHECK(output_of("char_gpt", {"40", file}) == output);
  const Environment uncaught("TESSERA_UNCAUGHT", nullptr);  // the tests have set it
  for (const char* name : {"char_gpt", "char_gpt_by_hand"}) {
    const std::string out = folder / (name + std::string(".out"));
    ChildProcess missing(std::string(TESSERA_PROGRAM_DIR "/examples/") + name, {"40", folder / "nowhere.txt"},
                         {.output = out});
    CHECK(missing.wait() != 0);
    const std::string error = file_bytes(out);
    CHECK(contains(error, "nowhere.txt"));
    CHECK_MESSAGE(lines_of(error) == 1, error);
  }
}

TEST_CASE("examples: they stay short") {
  CHECK(lines_of(source_of("spirals.cpp")) <= 40);
  CHECK(lines_of(source_of("char_gpt.cpp")) < 150);
  CHECK(lines_of(source_of("char_gpt_by_hand.cpp")) < 150);
  CHECK(!contains(source_of("char_gpt_by_hand.cpp"), "#include <tessera/dist/train/"));
}

TEST_CASE("examples: the code in their chapter is that of the files") {
  std::string files;
  for (const char* name : {"spirals.cpp", "char_gpt.cpp", "char_gpt_by_hand.cpp"}) files += source_of(name);
  const std::string chapter = source_of("README.md");
  int blocks = 0;
  const std::string opening = "\n```cpp\n";
  for (size_t at = chapter.find(opening); at != chapter.npos; at = chapter.find(opening, at)) {
    at += opening.size();
    const std::string block = chapter.substr(at, chapter.find("```", at) - at);
    CHECK_MESSAGE(contains(files, block), "no example has these lines:\n", block);
    ++blocks;
  }
  CHECK(blocks == 7);
}
