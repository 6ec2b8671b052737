// .github/TORCH_NN.md: each name that it says is here is declared, every name of PyTorch (names.txt, see
// make_names.py) has one row, and the share that it states is right.
#include <doctest/doctest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "tessera/tessera.h"

#define TORCH_NN_NAME(line, name) \
  namespace row_##line {          \
    using ::tessera::name;        \
  }
namespace torch_nn_rows {
#include "torch_nn_rows.inc"
}  // namespace torch_nn_rows

namespace {

std::string contents(const char* path) {
  std::ifstream file(path);
  REQUIRE(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Row {
  std::string torch, tessera, note;
};

std::vector<Row> rows() {
  const std::string page = contents(TORCH_NN_PAGE);
  const std::regex pattern("\n\\| `([^`]+)` \\|(?: `([^`]+)`)? \\|([^\n]*)\\|(?=\n)");
  std::vector<Row> found;
  for (std::sregex_iterator i(page.begin(), page.end(), pattern), end; i != end; ++i)
    found.push_back({(*i)[1], (*i)[2], (*i)[3]});
  return found;
}

}  // namespace

TEST_CASE("torch.nn: every public name of PyTorch has one row, and no row has another name") {
  std::istringstream lines(contents(TORCH_NN_NAMES));
  std::set<std::string> expected, listed;
  for (std::string name; std::getline(lines, name);) expected.insert(name);
  CHECK(expected.size() > 250);
  for (const Row& row : rows()) {
    CHECK_MESSAGE(listed.insert(row.torch).second, row.torch, " has two rows");
    CHECK_MESSAGE(expected.contains(row.torch), row.torch, " is no name of PyTorch");
  }
  for (const std::string& name : expected) CHECK_MESSAGE(listed.contains(name), name, " has no row");
}

TEST_CASE("torch.nn: a name that is not here has a reason") {
  for (const Row& row : rows())
    CHECK_MESSAGE((!row.tessera.empty() || row.note.find_first_not_of(' ') != std::string::npos), row.torch);
}

TEST_CASE("torch.nn: the stated numbers are those of the rows, and at least 60 % of the names are here") {
  size_t here = 0;
  const std::vector<Row> all = rows();
  for (const Row& row : all) here += row.tessera.empty() ? 0 : 1;
  const std::string page = contents(TORCH_NN_PAGE);
  const std::regex sentence("(\\d+) of (\\d+)\\s+names are here, (\\d+) %");
  std::smatch stated;
  REQUIRE(std::regex_search(page, stated, sentence));
  CHECK(std::stoul(stated[1]) == here);
  CHECK(std::stoul(stated[2]) == all.size());
  CHECK(std::stoul(stated[3]) == 100 * here / all.size());
  CHECK(100 * here >= 60 * all.size());
}
