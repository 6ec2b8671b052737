#include "dist/checkpoint/run_lock.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "tensor/error.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

/// The message with which a second lock is refused; "" when it is not.
std::string refusal(const std::string& root) {
  try {
    const RunLock lock(root);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("RunLock: a second one is refused, naming folder, process and host, until the first is released") {
  const TemporaryFolder folder;
  const std::string root = folder / "runs/one";  // created with its parents
  {
    const RunLock lock(root);
    char host[256] = "";
    ::gethostname(host, sizeof host - 1);
    const std::string message = refusal(root);
    CHECK(contains(message, root + ": another run saves into this folder"));
    CHECK(contains(message, "process " + std::to_string(::getpid()) + " on host " + host));
    CHECK(refusal(folder / "runs/two") == "");
  }
  CHECK(!std::filesystem::exists(root));  // created for the lock, and empty
  std::filesystem::create_directory(root);
  CHECK(refusal(root) == "");
  CHECK(std::filesystem::is_empty(root));
}

TEST_CASE("RunLock: released when its process is killed; the next holder writes its own name") {
  const TemporaryFolder folder;
  const std::string root = folder / "run", ready = folder / "ready";
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const RunLock lock(root);
    write_bytes(ready, "x");
    for (;;) ::pause();
  }
  while (!std::filesystem::exists(ready)) ::usleep(1000);
  CHECK(contains(refusal(root), "process " + std::to_string(child) + " "));
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  const RunLock lock(root);
  CHECK(contains(refusal(root), "process " + std::to_string(::getpid()) + " "));
}

TEST_CASE("RunLock: only one of many concurrent processes holds it at any time") {
  const TemporaryFolder folder;
  const std::string root = folder / "run", held = folder / "held";
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    int status = 0;
    for (int round = 0; round < 300; ++round) try {
        const RunLock lock(root);
        if (!std::filesystem::create_directory(held)) status = 1;  // another process holds the lock too
        std::filesystem::remove(held);
      } catch (const ConfigError&) {
      }
    ::_exit(status);
  }
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
}
