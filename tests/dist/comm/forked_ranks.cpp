#include "tests/dist/comm/forked_ranks.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <stdexcept>

#include "tensor/threads/parallel.h"

namespace tessera::dist::forked {
namespace {

constexpr int most_ranks = 8;

/// Memory that the parent and its children share.
struct SharedState {
  std::atomic<int> arrived[64] = {};
  char bytes[64][most_ranks][512] = {};
  char errors[most_ranks][1024] = {};
};

/// Exchanges through SharedState: each all_gather has its own round.
class ForkedBootstrap final : public Bootstrap {
 public:
  ForkedBootstrap(SharedState& shared, int rank, int size) : shared_(shared), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string all_gather(const std::string& bytes) override {
    const int round = rounds_++;
    std::memcpy(shared_.bytes[round][rank_], bytes.data(), bytes.size());
    ++shared_.arrived[round];
    while (shared_.arrived[round] < size_) ::usleep(100);
    std::string all;
    for (int r = 0; r < size_; ++r) all.append(shared_.bytes[round][r], bytes.size());
    return all;
  }

 private:
  SharedState& shared_;
  int rank_, size_, rounds_ = 0;
};

void run_rank(SharedState& shared, int rank, int ranks, const std::function<void(Process&)>& body,
              const Options& options) {
  set_num_threads(1);
  ForkedBootstrap bootstrap(shared, rank, ranks);
  const auto arena = rank == options.without_arena ? nullptr : SharedArena::create(options.arena);
  std::vector<int> world;
  for (int r = 0; r < ranks; ++r) world.push_back(r);
  const JoinedProcesses joined = join_processes(arena, bootstrap, world);
  if (!joined.shared) throw std::runtime_error("not joined: " + joined.no_shared_memory_reason);
  const auto self =
      std::make_shared<node::Rank>(joined.shared, rank, node::RankOptions{.timeout = options.timeout});
  const auto communicator = make_node_communicator(self, bootstrap, "world", std::make_shared<Ledger>());
  Process process{*communicator, *arena};
  try {
    body(process);
  } catch (const std::exception& error) {
    joined.shared->fail({.rank = rank, .message = error.what()});
    throw;
  }
}

std::string ending_of(pid_t child, const char* error) {
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return "killed by signal " + std::to_string(WTERMSIG(status));
  return error;
}

}  // namespace

std::vector<std::string> run(int ranks, const std::function<void(Process&)>& body, const Options& options) {
  void* const memory =
      ::mmap(nullptr, sizeof(SharedState), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory to share with child processes");
  SharedState& shared = *new (memory) SharedState;
  std::vector<pid_t> children;
  for (int r = 0; r < ranks; ++r) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        run_rank(shared, r, ranks, body, options);
      } catch (const std::exception& error) {
        std::strncpy(shared.errors[r], error.what(), sizeof shared.errors[r] - 1);
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  std::vector<std::string> errors;
  for (int r = 0; r < ranks; ++r)
    errors.push_back(ending_of(children[static_cast<size_t>(r)], shared.errors[r]));
  ::munmap(memory, sizeof(SharedState));
  return errors;
}

}  // namespace tessera::dist::forked
