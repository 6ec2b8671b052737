#include "dist/train/config/shared_options.h"

#include <doctest/doctest.h>

#include <set>

#include "dist/train/config/training_fields.h"
#include "dist/train/trainer/trainer_arguments.h"
#include "tensor/error.h"
#include "tests/support/error_text.h"

using namespace tessera;
using namespace tessera::training;

namespace {

std::set<std::string> names_of(const std::vector<std::string>& names) {
  return {names.begin(), names.end()};
}

}  // namespace

TEST_CASE("shared options: a name that there is not is an error with the nearest one") {
  CHECK(std::string(shared_option("max_steps").unit) == "steps");
  CHECK(message_of<ConfigError>([] { shared_option("max_step"); }) ==
        "shared_option: there is no option 'max_step'; the nearest is 'max_steps'");
}

TEST_CASE("shared options: a table states a difference, and the catalogue keeps its row") {
  const FieldInfo& row = shared_option("keep");
  const FieldInfo other = row.with_name("newest")
                              .with_help("newest ones")
                              .with_unit("folders")
                              .with_limits({.low = 1, .high = 9})
                              .with_on_resume(OnResume::same);
  CHECK(std::string(other.name) == "newest");
  CHECK(std::string(other.help) == "newest ones");
  CHECK(std::string(other.unit) == "folders");
  CHECK(other.limits.high == 9);
  CHECK(other.on_resume == OnResume::same);
  CHECK(std::string(shared_option("keep").name) == "keep");
  CHECK(shared_option("keep").on_resume == OnResume::not_saved);
}

TEST_CASE("shared options: each stands once") {
  std::set<std::string> names;
  for (const FieldInfo& option : shared_options())
    CHECK_MESSAGE(names.insert(option.name).second, option.name);
}

TEST_CASE("shared options: a name that an engine's and a trainer's table have is that of a shared option") {
  const std::set<std::string> engine = names_of(training_fields().names());
  for (const Field<TrainerFlags>& field : trainer_fields().fields()) {
    if (!engine.contains(field.info.name)) continue;
    const FieldInfo& row = shared_option(field.info.name);  // throws for one that is described twice
    CHECK_MESSAGE(std::string(field.info.unit) == row.unit, row.name);
    CHECK_MESSAGE(field.info.limits.low == row.limits.low, row.name);
  }
}
