#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include "tests/dist/checkpoint/checkpoint_fixture.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

/// Runs `body` in a child process and returns its exit status: 0 without an error, 1 after a CheckpointError
/// (its message is written to `message_path`), 2 after any other error.
template <class Body>
int in_child(const std::string& message_path, const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 0;
    try {
      body();
    } catch (const CheckpointError& error) {
      status = 1;
      write_bytes(message_path, error.what());
    } catch (...) {
      status = 2;
    }
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE(
    "save: killed at any moment, the latest checkpoint is complete and the next save removes the rest") {
  const TemporaryFolder folder;
  const std::string root = folder / "run";
  save_small(root, 1, 1);
  std::mt19937 random(20);
  int64_t step = 1;
  for (int kill = 0; kill < 20; ++kill) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      // The first save replaces an existing checkpoint, as in a resumed run that repeats a step.
      for (int64_t next = step;; ++next) save_small(root, next, static_cast<int>(next % 1000), {.keep = 3});
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    REQUIRE(WTERMSIG(status) == SIGKILL);

    const CheckpointReader reader(find_checkpoint(root));
    reader.verify();
    REQUIRE(reader.state().step >= step);
    step = reader.state().step;
    const auto loaded = small_run(0);
    load_checkpoint(reader, loaded);
    CHECK(same_bits(loaded, small_run(static_cast<int>(step % 1000))));
    for (int64_t complete : list_checkpoints(root))
      CheckpointReader(root + "/" + step_name(complete)).verify();
  }
  save_small(root, step + 1, 5, {.keep = 1});
  CHECK(list_checkpoints(root) == std::vector<int64_t>{step + 1});
  CHECK(entries_in(root) == 2);  // the checkpoint and `latest`, and no files of the killed saves
}

TEST_CASE("save: a full disk is reported, and the older checkpoint stays") {
  const TemporaryFolder folder;
  const std::string root = folder / "run", message = folder / "message";
  const std::string saved = save_small(root, 1, 1);
  std::vector<TensorGroup> large = small_run(2);
  large[0].tensors.push_back({"large", Tensor::zeros({1 << 20}, f32)});
  // A limit on the size of files fails in the same call as a full disk, after some bytes were written.
  CHECK(in_child(message, [&] {
          ::signal(SIGXFSZ, SIG_IGN);
          const rlimit limit{1 << 16, RLIM_INFINITY};
          ::setrlimit(RLIMIT_FSIZE, &limit);
          save_checkpoint(root, state_at(2), large);
        }) == 1);
  CHECK(contains(file_bytes(message), "model.safetensors: cannot write after 65536 bytes: File too large"));
  CHECK(find_checkpoint(root) == saved);
  CHECK(entries_in(root) == 2);
  CHECK(save_checkpoint(root, state_at(2), large) == root + "/step-00000002");
}

TEST_CASE("save: a folder that cannot be created or written is named") {
  const TemporaryFolder folder;
  write_bytes(folder / "plain", "x");
  const std::string message = refused([&] { save_small(folder / "plain/run", 1, 1); });
  CHECK(contains(message, (folder / "plain/run") + ": cannot make the folder: Not a directory"));
  if (::geteuid() == 0) {
    MESSAGE("not run as root, for which permissions have no effect: a folder without write permission");
    return;
  }
  const std::string root = folder / "run", saved = save_small(root, 1, 1);
  std::filesystem::permissions(root, std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  CHECK(contains(refused([&] { save_small(root, 2, 1); }), "Permission denied"));
  CHECK(find_checkpoint(root) == saved);
  std::filesystem::permissions(root, std::filesystem::perms::owner_all);
}

TEST_CASE("save: two processes do not save into one folder at once") {
  const TemporaryFolder folder;
  const std::string root = folder / "run";
  save_small(root, 1, 1);
  const CheckpointWriter writer(root, 2);
  CHECK(contains(refused([&] { save_small(root, 3, 1); }), root + ": another process is saving"));
}

TEST_CASE("save: files that no save wrote are neither replaced nor removed") {
  const TemporaryFolder folder;
  const std::string root = folder / "run";
  std::filesystem::create_directories(root + "/step-00000001");
  write_bytes(root + "/step-00000001/notes.txt", "mine");
  write_bytes(root + "/draft.tmp-1", "mine");
  CHECK(contains(refused([&] { save_small(root, 1, 1); }),
                 "expected a checkpoint to replace, found something else"));
  save_small(root, 2, 1, {.keep = 1});
  save_small(root, 3, 1, {.keep = 1});
  CHECK(file_bytes(root + "/step-00000001/notes.txt") == "mine");
  CHECK(file_bytes(root + "/draft.tmp-1") == "mine");
  CHECK(list_checkpoints(root) == std::vector<int64_t>{3});
}
