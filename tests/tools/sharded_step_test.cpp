// The lesson's step: the ledger that is printed adds up to the formula beside it, and the picture shows it.

#include <doctest/doctest.h>

#include <sstream>

#include "tensor/error.h"
#include "tests/dist/checkpoint/checkpoint_fixture.h"
#include "tests/support/temporary_folder.h"
#include "tools/tessera/sharded_step.h"
#include "tools/tessera/step_timeline.h"

using namespace tessera;
using namespace tessera::tools;

namespace {

/// What stands behind `words` on its line.
std::string after(const std::string& said, const std::string& words) {
  const size_t at = said.find(words);
  REQUIRE(at != std::string::npos);
  const size_t begin = said.find_first_not_of(' ', at + words.size());
  return said.substr(begin, said.find('\n', begin) - begin);
}

int64_t count(const std::string& said, const std::string& words) {
  int64_t found = 0;
  for (size_t at = 0; (at = said.find(words, at)) != std::string::npos; ++at) ++found;
  return found;
}

}  // namespace

TEST_CASE("tessera sharded-step: the ledger is the formula's, and every call is in the picture") {
  const TemporaryFolder folder;
  const std::string svg = folder / "step.svg";
  struct Formula {
    const char* strategy;
    const char* sent;
  };
  const Formula formulas[] = {{"no_shard", "(2R) * 2/3 = "},
                              {"shard_optim", "(G + R) * 2/3 = "},
                              {"shard_grad_op", "(G + R) * 2/3 = "},
                              {"full_shard", "(2G - G0 + R) * 2/3 = "}};
  for (const Formula& formula : formulas) {
    CAPTURE(formula.strategy);
    std::ostringstream out;
    show_sharded_step(
        {.strategy = formula.strategy, .ranks = 3, .layers = 2, .width = 16, .batch_size = 1, .svg = svg},
        out);
    CHECK(after(out.str(), formula.sent) == after(out.str(), "The ledger:"));
    const std::string picture = file_bytes(svg);
    CHECK(picture.starts_with("<svg "));
    CHECK(picture.ends_with("</svg>\n"));
    for (const char* words : {">root<", ">blocks.0<", ">blocks.1<", ">forward<", ">backward<", ">optimizer<"})
      CHECK(count(picture, words) == 1);
    if (std::string(formula.strategy) != "full_shard") continue;
    CHECK(count(picture, "<title>all_gather of root") == 1);
    CHECK(count(picture, "<title>all_gather of blocks.1") == 2);
    CHECK(count(picture, "<title>reduce_scatter of blocks.1") == 1);
  }
}

TEST_CASE("tessera sharded-step: what does not fit is refused") {
  std::ostringstream out;
  CHECK_THROWS_AS(show_sharded_step({.strategy = "zero"}, out), ConfigError);
  CHECK_THROWS_AS(show_sharded_step({.strategy = "hybrid_shard"}, out), ConfigError);
  CHECK_THROWS_AS(show_sharded_step({.ranks = 1}, out), ConfigError);
  CHECK_THROWS_AS(step_timeline(Profiler(), 0, {}, ""), ValueError);
  CHECK(out.str() == "");
}
