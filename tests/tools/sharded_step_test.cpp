// tessera sharded-step: the printed ledger has the sum of the formula, and the picture has every call.

#include <doctest/doctest.h>

#include <sstream>

#include "dist/fsdp/strategy.h"
#include "tensor/error.h"
#include "tests/dist/checkpoint/checkpoint_fixture.h"
#include "tests/support/temporary_folder.h"
#include "tools/tessera/sharded_step.h"
#include "tools/tessera/step_timeline.h"

using namespace tessera;
using namespace tessera::tools;

namespace {

/// The rest of the line after `label`.
std::string rest_of_line(const std::string& output, const std::string& label) {
  const size_t at = output.find(label);
  REQUIRE(at != std::string::npos);
  const size_t begin = output.find_first_not_of(' ', at + label.size());
  return output.substr(begin, output.find('\n', begin) - begin);
}

int64_t count(const std::string& output, const std::string& text) {
  int64_t found = 0;
  for (size_t at = 0; (at = output.find(text, at)) != std::string::npos; ++at) ++found;
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
  CHECK(std::size(formulas) == dist::flat_strategies.size());
  for (const Formula& formula : formulas) {
    CAPTURE(formula.strategy);
    std::ostringstream out;
    show_sharded_step(
        {.strategy = formula.strategy, .ranks = 3, .layers = 2, .width = 16, .batch_size = 1, .svg = svg},
        out);
    CHECK(rest_of_line(out.str(), formula.sent) == rest_of_line(out.str(), "The ledger:"));
    const std::string picture = file_bytes(svg);
    CHECK(picture.starts_with("<svg "));
    CHECK(picture.ends_with("</svg>\n"));
    for (const char* text : {">root<", ">blocks.0<", ">blocks.1<", ">forward<", ">backward<", ">optimizer<"})
      CHECK(count(picture, text) == 1);
    if (std::string(formula.strategy) != "full_shard") continue;
    CHECK(count(picture, "<title>all_gather of root") == 1);
    CHECK(count(picture, "<title>all_gather of blocks.1") == 2);
    CHECK(count(picture, "<title>reduce_scatter of blocks.1") == 1);
  }
}

TEST_CASE("tessera sharded-step: strategies and ranks that it cannot show are refused") {
  std::ostringstream out;
  CHECK_THROWS_AS(show_sharded_step({.strategy = "zero"}, out), ConfigError);
  CHECK_THROWS_AS(show_sharded_step({.strategy = "hybrid_shard"}, out), ConfigError);
  CHECK_THROWS_AS(show_sharded_step({.ranks = 1}, out), ConfigError);
  CHECK_THROWS_AS(step_timeline(Profiler(), 0, {}, ""), ValueError);
  CHECK(out.str() == "");
}
