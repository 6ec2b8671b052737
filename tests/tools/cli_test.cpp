#include <doctest/doctest.h>

#include <CLI/CLI.hpp>
#include <sstream>

#include "dist/comm/interface/errors.h"
#include "tensor/error.h"
#include "tensor/uncaught_exception.h"
#include "tools/cli/exit_status.h"
#include "tools/cli/program.h"

using namespace tessera;
using namespace tessera::tools;

namespace {

struct Outcome {
  int status;
  std::string out, err;
};

/// A program with one subcommand, as a user would call it.
Outcome call(
    std::vector<const char*> arguments, std::function<void()> body = [] {}) {
  CLI::App app("A program of the test", "prog");
  app.require_subcommand(1);
  int batch = 1;
  CLI::App* train = app.add_subcommand("train", "Trains");
  train->add_option("--batch-size", batch, "Samples a step")->check(CLI::Range(1, 100));
  train->add_option("--steps", batch, "Steps");
  train->callback(body);
  app.add_subcommand("sample", "Samples");
  arguments.insert(arguments.begin(), "prog");
  std::ostringstream out, err;
  const int status = run_program(app, static_cast<int>(arguments.size()), arguments.data(), out, err);
  return {status, out.str(), err.str()};
}

}  // namespace

TEST_CASE("run_program: a misspelt flag or subcommand ends with 2 and the right spelling") {
  Outcome outcome = call({"train", "--bathc-size", "3"});
  CHECK(outcome.status == 2);
  CHECK(outcome.err ==
        "prog: unknown flag '--bathc-size'; did you mean '--batch-size'? (see prog train --help)\n");
  outcome = call({"train", "--setps=3"});
  CHECK(outcome.err == "prog: unknown flag '--setps'; did you mean '--steps'? (see prog train --help)\n");
  outcome = call({"trian"});
  CHECK(outcome.status == 2);
  CHECK(outcome.err == "prog: unexpected argument 'trian'; did you mean 'train'? (see prog --help)\n");
  outcome = call({});
  CHECK(outcome.status == 2);
  CHECK(outcome.err == "prog: A subcommand is required (see prog --help)\n");
}

TEST_CASE("run_program: a value out of range or of another type ends with 2 and the flag's name") {
  const Outcome range = call({"train", "--batch-size", "0"});
  CHECK(range.status == 2);
  CHECK(range.err.find("--batch-size") != std::string::npos);
  CHECK(call({"train", "--steps", "many"}).status == 2);
  CHECK(call({"train", "--steps"}).status == 2);
}

TEST_CASE("run_program: errors of the body end with their exit status and one line") {
  auto status = [](auto error) { return call({"train"}, [&] { throw error; }); };
  CHECK(status(ConfigError("x")).status == 2);
  CHECK(status(DataError("x")).status == 3);
  CHECK(status(CheckpointError("cut\noff")).err == "prog: cut off\n");
  CHECK(status(CheckpointError("x")).status == 3);
  CHECK(status(NonFiniteError("x")).status == 4);
  CHECK(status(dist::RankLostError("x", 1)).status == 5);
  CHECK(status(ShapeError("x")).status == 1);
  CHECK(status(std::bad_alloc()).status == 1);
  CHECK(call({"train"}, [] { throw CLI::RuntimeError(130); }).status == 130);
  CHECK(call({"train"}).status == 0);
}

TEST_CASE("run_program: help is no error") {
  const Outcome outcome = call({"train", "--help"});
  CHECK(outcome.status == 0);
  CHECK(outcome.out.find("--batch-size") != std::string::npos);
  CHECK(outcome.err.empty());
}

TEST_CASE("exit status: that of an exception that leaves main") {
  const auto agree = [](const auto& error) {
    return tools::exit_status(error) == tessera::exit_status(std::make_exception_ptr(error));
  };
  CHECK(agree(ConfigError("")));
  CHECK(agree(NotBuiltError("")));
  CHECK(agree(DataError("")));
  CHECK(agree(CheckpointError("")));
  CHECK(agree(NonFiniteError("")));
  CHECK(agree(ShapeError("")));
  CHECK(agree(dist::MismatchError("")));
  CHECK(agree(dist::RankLostError("", 1)));
  CHECK(agree(std::runtime_error("")));
}
