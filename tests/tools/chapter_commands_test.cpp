#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/tools/gptlite_program.h"

// The commands in the chapters: every program, subcommand and flag in them must exist.

namespace {

namespace fs = std::filesystem;

using Tokens = std::vector<std::string>;

const fs::path root = fs::path(TESSERA_TEST_DATA_DIR).parent_path();

std::vector<fs::path> chapters() {
  std::vector<fs::path> found{root / "README.md"};
  for (const char* folder : {"tensor", "autograd", "nn", "optim", "data", "models", "dist", "tests", "tools"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (entry.path().extension() == ".md") found.push_back(entry.path());
  return found;
}

/// The lines of code blocks, without their comments, and the texts between backticks in other lines.
std::vector<std::string> code_of(const fs::path& chapter) {
  std::vector<std::string> code;
  std::ifstream file(chapter);
  bool is_fenced = false;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("```", 0) == 0) {
      is_fenced = !is_fenced;
    } else if (is_fenced || line.rfind("    ", 0) == 0) {
      code.push_back(line.substr(0, line.find(" #")));
    } else {
      for (size_t open = line.find('`'); open != std::string::npos;) {
        const size_t close = line.find('`', open + 1);
        if (close == std::string::npos) break;
        code.push_back(line.substr(open + 1, close - open - 1));
        open = line.find('`', close + 1);
      }
    }
  }
  return code;
}

/// The call of one of our programs in a line: the tokens from its name on.
Tokens call_in(const std::string& line) {
  std::istringstream stream(line);
  Tokens call;
  for (std::string token; stream >> token;) {
    const std::string name = token.substr(token.rfind('/') + 1);
    const bool is_ours = name == "gptlite" || name == "tessera" || token == "tools/train.sh";
    if (call.empty() && !is_ours) continue;
    if (call.empty() && name == "train.sh")
      call = {"gptlite", "train"};  // it passes its options on
    else
      call.push_back(call.empty() ? name : token);
  }
  return call;
}

/// The help of a program's subcommand; empty where there is no such subcommand.
std::string help_of(const Tokens& command) {
  const TemporaryFolder folder;
  std::string line = "'" TESSERA_PROGRAM_DIR "/" + command[0] + "'";
  for (size_t i = 1; i < command.size(); ++i) line += " '" + command[i] + "'";
  const int status = std::system((line + " --help > '" + (folder / "out") + "' 2>&1").c_str());
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? file_bytes(folder / "out") : "";
}

bool may_be_subcommand(const std::string& token) {
  return !token.empty() && token.find_first_not_of("abcdefghijklmnopqrstuvwxyz-") == std::string::npos &&
         token[0] != '-';
}

/// The error in a call; "" for a correct one.
std::string problem_of(const Tokens& call) {
  Tokens command{call[0]};
  size_t next = 1;
  for (; next < call.size() && command.size() < 3 && may_be_subcommand(call[next]); ++next) {
    Tokens longer = command;
    longer.push_back(call[next]);
    // With a token that is no subcommand, the help is that of the command before it.
    const std::string help = help_of(longer);
    const bool is_known = !help.empty() && help != help_of(command);
    if (!is_known && command.size() == 1) return "there is no " + call[0] + " " + call[next];
    if (!is_known) break;
    command = longer;
  }
  const std::string help = help_of(command);
  for (; next < call.size(); ++next) {
    const std::string& token = call[next];
    if (token.rfind("--", 0) != 0) continue;
    const std::string flag = token.substr(0, token.find_first_of("=`,.;:)"));
    std::istringstream stream(help);
    bool exists = flag == "--help";
    for (std::string w; stream >> w;) exists = exists || w.substr(0, w.find_first_of(",=[")) == flag;
    if (!exists) return "no flag " + flag;
  }
  return "";
}

}  // namespace

TEST_CASE("chapters: the programs, subcommands and flags in them exist") {
  std::set<Tokens> seen;
  for (const fs::path& chapter : chapters())
    for (const std::string& line : code_of(chapter)) {
      const Tokens call = call_in(line);
      if (call.size() < 2 || !seen.insert(call).second) continue;
      const std::string problem = problem_of(call);
      CHECK_MESSAGE(problem == "", chapter.string(), ": ", line, ": ", problem);
    }
  CHECK(seen.size() > 20);
  CHECK(problem_of({"gptlite", "train", "--no-such-flag"}) == "no flag --no-such-flag");
  CHECK(problem_of({"gptlite", "trian"}) != "");
  CHECK(problem_of({"tessera", "checkpoint", "verify", "out", "--force"}) == "no flag --force");
}
