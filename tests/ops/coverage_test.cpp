#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "tensor/elementwise/op_lists.h"
#include "tests/ops/table.h"

using namespace tessera;
using namespace tessera::test;

namespace {

std::string contents(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Functions declared at the start of a line in the headers of `folder` that return one of `types`.
std::set<std::string> declared(const std::string& folder, const std::string& types) {
  const std::regex declaration("(?:^|\\n)(?:" + types + ") (\\w+)\\(");
  std::set<std::string> names;
  const std::filesystem::path root = std::filesystem::path(TESSERA_TEST_DATA_DIR).parent_path();
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
    if (entry.path().extension() != ".h") continue;
    const std::string header = contents(entry.path());
    for (std::sregex_iterator found(header.begin(), header.end(), declaration), end; found != end; ++found)
      names.insert((*found)[1]);
  }
  return names;
}

std::string without_a_row(const std::set<std::string>& names) {
  // Helpers that are not ops.
  std::set<std::string> rows = {"broadcast_result", "prepare_operand"};
  for (const OpRow& row : op_table()) rows.insert(row.name);
  std::string missing;
  for (const std::string& name : names)
    if (!rows.contains(name)) missing += " " + name;
  return missing;
}

}  // namespace

TEST_CASE("op table: every differentiable function has a row") {
  const std::set<std::string> names = declared("autograd/functions", "Variable|std::vector<Variable>");
  CHECK(names.size() > 50);
  CHECK(without_a_row(names) == "");
}

TEST_CASE("op table: every raw op has a row") {
  std::set<std::string> names = declared("tensor/ops", "Tensor|std::vector<Tensor>");
  // Unary operations are declared by their lists.
#define NAME(name) #name,
  names.insert({TESSERA_UNARY_FLOAT_OPS(NAME) TESSERA_UNARY_NUMERIC_OPS(NAME) TESSERA_UNARY_INTEGER_OPS(NAME)
                    TESSERA_UNARY_PREDICATES(NAME)});
#undef NAME
  // A derivative is checked by the row of its function.
  std::erase_if(names, [](const std::string& name) { return name.ends_with("_backward"); });
  CHECK(names.size() > 50);
  CHECK(without_a_row(names) == "");
}

TEST_CASE("op table: a row has cases, or names the test that covers the op") {
  for (const OpRow& row : op_table()) {
    INFO(row.name);
    CHECK((row.call != nullptr) != !row.tested_in.empty());
    if (row.call) CHECK_FALSE(cases_of(row).empty());
    if (!row.tested_in.empty())
      CHECK(std::filesystem::exists(std::filesystem::path(TESSERA_TEST_DATA_DIR).parent_path() /
                                    row.tested_in));
    for (const auto& [name, reason] : row.except) CHECK_FALSE(reason.empty());
  }
}

TEST_CASE("op table: every golden is used by a row") {
  std::set<std::string> used;
  for (const OpRow& row : op_table())
    used.insert(row.family + "/" + (row.golden.empty() ? row.name : row.golden));
  const std::filesystem::path goldens = std::filesystem::path(TESSERA_TEST_DATA_DIR) / "ops" / "goldens";
  for (const auto& entry : std::filesystem::directory_iterator(goldens)) {
    const std::string family = entry.path().stem().string();
    for (const std::string& op : golden_ops(family))
      CHECK_MESSAGE(used.contains(family + "/" + op), family, "/", op);
  }
}
