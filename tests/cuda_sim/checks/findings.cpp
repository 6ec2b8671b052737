#include "tools/cuda_sim/checks/findings.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

using tessera::cuda_sim::Check;
using tessera::cuda_sim::check_name;
using tessera::cuda_sim::Findings;
using tessera::cuda_sim::Site;

TEST_CASE("findings: one per check and instruction, counted") {
  Findings findings;
  findings.prints = false;
  const Site site{.kernel = "k", .file = "k.cu", .line = 3, .instruction = "ld.global.f32 %f1, [%rd1];"};
  CHECK_FALSE(findings.add_again(Check::bounds, site));
  findings.add(Check::bounds, "first", site);
  findings.add(Check::bounds, "second", site);
  CHECK(findings.add_again(Check::bounds, site));
  findings.add(Check::alignment, "other check", site);
  Site other = site;
  other.line = 4;
  findings.add(Check::bounds, "other line", other);
  CHECK(findings.count() == 5);
  const auto all = findings.all();
  REQUIRE(all.size() == 3);
  for (const auto& finding : all)
    if (finding.message == "first") CHECK(finding.count == 3);
  findings.clear();
  CHECK(findings.count() == 0);
  CHECK(findings.all().empty());
}

TEST_CASE("findings: calls of the runtime are distinguished by their text") {
  Findings findings;
  findings.prints = false;
  findings.add(Check::leak, "100 bytes", {});
  findings.add(Check::leak, "200 bytes", {});
  CHECK(findings.all().size() == 2);
}

TEST_CASE("findings: checks are switched by name") {
  Findings findings;
  findings.prints = false;
  CHECK(findings.is_on(Check::leak));
  findings.switch_by_text("none");
  for (int i = 0; i < static_cast<int>(Check::count); ++i) CHECK_FALSE(findings.is_on(static_cast<Check>(i)));
  findings.add(Check::leak, "x", {});
  CHECK(findings.count() == 0);
  findings.switch_by_text("all, -shared-race");
  CHECK(findings.is_on(Check::bounds));
  CHECK_FALSE(findings.is_on(Check::shared_race));
  findings.switch_by_text("bounds,leak");
  CHECK(findings.is_on(Check::leak));
  CHECK_FALSE(findings.is_on(Check::capture));
  findings.switch_by_text("-copy-in-flight");
  CHECK(findings.is_on(Check::deadlock));
  CHECK_FALSE(findings.is_on(Check::copy_in_flight));
  findings.switch_on(Check::copy_in_flight, true);
  CHECK(findings.is_on(Check::copy_in_flight));
  for (int i = 0; i < static_cast<int>(Check::count); ++i) {
    findings.switch_by_text(check_name(static_cast<Check>(i)));
    CHECK(findings.is_on(static_cast<Check>(i)));
  }
}

TEST_CASE("findings: an unknown name is refused with the names that there are") {
  Findings findings;
  try {
    findings.switch_by_text("all,-races");
    FAIL("accepted");
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    CHECK(text.find("'races'") != std::string::npos);
    CHECK(text.find("stream-race") != std::string::npos);
  }
  CHECK(findings.is_on(Check::bounds));
}
