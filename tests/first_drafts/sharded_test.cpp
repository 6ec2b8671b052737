#define main train
#include "tests/first_drafts/sharded.cpp"  // NOLINT(bugprone-suspicious-include)
#undef main

#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>

#include "tests/support/temporary_folder.h"

namespace {

/// A text of words in an order that each word determines, of a few characters.
std::string words(int count) {
  const std::vector<std::string> all = {"the ", "king ", "of ", "sword ", "loves ", "a ", "rose.\n"};
  std::string text;
  for (int i = 0, word = 0; i < count; ++i, word = (word * 3 + i % 2 + 1) % 7) text += all[word];
  return text;
}

/// Standard output goes to a file while it lives.
class StandardOutputTo {
 public:
  explicit StandardOutputTo(const char* path) {
    std::fflush(stdout);
    const int file = ::open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    ::dup2(file, STDOUT_FILENO);
    ::close(file);
  }
  ~StandardOutputTo() {
    std::fflush(stdout);
    ::dup2(before_, STDOUT_FILENO);
    ::close(before_);
  }
  StandardOutputTo(const StandardOutputTo&) = delete;
  StandardOutputTo& operator=(const StandardOutputTo&) = delete;

 private:
  int before_ = ::dup(STDOUT_FILENO);
};

/// The losses that the program prints, by step.
std::map<int, double> losses(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  int status = 0;
  {
    const StandardOutputTo file("losses.txt");
    status = train(static_cast<int>(argv.size()), argv.data());
  }
  REQUIRE(status == 0);
  std::map<int, double> losses;
  std::ifstream printed("losses.txt");
  for (std::string line; std::getline(printed, line);) {
    int step = 0;
    double loss = 0, norm = 0;
    REQUIRE(std::sscanf(line.c_str(), "step %d loss %lf norm %lf", &step, &loss, &norm) == 3);
    losses[step] = loss;
  }
  return losses;
}

}  // namespace

TEST_CASE(
    "first drafts: four ranks have the losses of one, and a resumed run those of one that was not stopped") {
  const TemporaryFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  folder.write("shared/data/tiny-shakespeare/input.txt", words(2000));
  const std::map<int, double> one = losses({"sharded", "1", "one", "", "8"});
  const std::map<int, double> four = losses({"sharded", "4", "four", "", "8"});
  const std::map<int, double> resumed = losses({"sharded", "4", "again", "four/step-00000004", "8"});
  std::filesystem::current_path(before);
  REQUIRE(one.size() == 8);
  CHECK(one.at(8) < one.at(1) - 0.05);
  for (const auto& [step, loss] : one) {
    const int at = step;  // clang 14 captures no structured binding
    CAPTURE(at);
    // A rank's gradients are rounded to bf16 before they are added up.
    CHECK(std::abs(four.at(step) - loss) < 1e-3);
  }
  REQUIRE(resumed.size() == 4);
  for (const auto& [step, loss] : resumed) CHECK(loss == four.at(step));
}
