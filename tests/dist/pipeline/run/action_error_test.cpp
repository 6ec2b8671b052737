// Which exceptions of a layer name the action in which they happened.

#include "dist/pipeline/run/action_error.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <stdexcept>
#include <typeinfo>

#include "autograd/recompute/stores.h"
#include "dist/comm/interface/errors.h"
#include "tensor/arguments/linalg.h"
#include "tensor/batched/batched.h"
#include "tests/support/error_text.h"

using namespace tessera;

namespace {

constexpr dist::PipelineAction action{dist::ActionKind::forward, 1, 3};

/// The message of `error` in the action; "another type" where it lost its own.
template <class E>
std::string message_in_action(const E& error, size_t live = 0) {
  try {
    try {
      throw error;
    } catch (const std::exception&) {
      dist::rethrow_in(action, live);
    }
  } catch (const std::exception& thrown) {
    return typeid(thrown) == typeid(E) ? thrown.what() : text("another type: ", thrown.what());
  }
}

/// The names of all types in the library's headers that end in Error or derive from one.
std::set<std::string> exceptions_of_headers() {
  const std::filesystem::path root = std::filesystem::path(TESSERA_TEST_DATA_DIR).parent_path();
  const std::regex derived(R"((?:struct|class) (\w+) : (?:public )?(?:\w+::)*(\w*Error|runtime_error)\b)");
  std::set<std::string> names;
  for (const char* folder : {"tensor", "autograd", "nn", "optim", "data", "models", "dist"})
    for (const auto& file : std::filesystem::recursive_directory_iterator(root / folder)) {
      if (file.path().extension() != ".h") continue;
      std::ifstream in(file.path());
      for (std::string line; std::getline(in, line);)
        if (std::smatch found; std::regex_search(line, found, derived)) names.insert(found[1]);
    }
  return names;
}

/// Throws E in the action and notes its name.
template <class E>
void require_named(const char* name, std::set<std::string>& named) {
  CAPTURE(name);
  named.insert(name);
  CHECK(message_in_action(E("broken")) == "pipeline, 1F3 (stage 1, micro-batch 3): broken");
}

}  // namespace

TEST_CASE("pipeline, errors: every exception type of the library names the action and keeps its type") {
  std::set<std::string> named;
  require_named<Error>("Error", named);
  require_named<ShapeError>("ShapeError", named);
  require_named<DTypeError>("DTypeError", named);
  require_named<DeviceError>("DeviceError", named);
  require_named<NotBuiltError>("NotBuiltError", named);
  require_named<IndexError>("IndexError", named);
  require_named<ValueError>("ValueError", named);
  require_named<StorageError>("StorageError", named);
  require_named<OutOfMemoryError>("OutOfMemoryError", named);
  require_named<StoreBudgetError>("StoreBudgetError", named);
  require_named<LinAlgError>("LinAlgError", named);
  require_named<AutogradError>("AutogradError", named);
  require_named<NonFiniteError>("NonFiniteError", named);
  require_named<ConfigError>("ConfigError", named);
  require_named<DataError>("DataError", named);
  require_named<CheckpointError>("CheckpointError", named);
  // These stay as they are: the communicator's name the value that was waited for, and NoBatchingRule is
  // made from an operation's name.
  for (const char* name :
       {"CommunicationError", "MismatchError", "RankLostError", "PeerFailedError", "NoBatchingRule"})
    named.insert(name);
  const std::set<std::string> all = exceptions_of_headers();
  CHECK(all.size() >= 20);
  for (const std::string& name : all) {
    CAPTURE(name);  // add it to `rethrow_in` and above
    CHECK(named.contains(name));
  }
}

TEST_CASE("pipeline, errors: exceptions that name something else stay as they are") {
  CHECK(message_in_action(dist::MismatchError("two tables")) == "two tables");
  CHECK(message_in_action(dist::RankLostError("rank 2 is lost", 2)) == "rank 2 is lost");
  const NoBatchingRule rule("sort");
  CHECK(message_in_action(rule) == std::string(rule.what()));
}

TEST_CASE("pipeline, errors: out of memory has the live micro-batches, a store's budget its own advice") {
  const std::string full = message_in_action(OutOfMemoryError("limit of 8 B"), 2);
  CHECK(contains(full, "limit of 8 B; this rank holds 2 micro-batches: activation checkpointing"));
  CHECK(contains(message_in_action(OutOfMemoryError("limit"), 1), "holds 1 micro-batch:"));
  CHECK(message_in_action(StoreBudgetError("--activation-offload-bytes 8"), 2) ==
        "pipeline, 1F3 (stage 1, micro-batch 3): --activation-offload-bytes 8");
}
