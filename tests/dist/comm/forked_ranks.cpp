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

/// What parent and children share.
struct Board {
  std::atomic<int> come[64] = {};
  char bytes[64][most_ranks][512] = {};
  char errors[most_ranks][1024] = {};
};

/// Every exchange has a page of the board of its own.
class BoardBootstrap final : public Bootstrap {
 public:
  BoardBootstrap(Board& board, int rank, int size) : board_(board), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string all_gather(const std::string& bytes) override {
    const int round = rounds_++;
    std::memcpy(board_.bytes[round][rank_], bytes.data(), bytes.size());
    ++board_.come[round];
    while (board_.come[round] < size_) ::usleep(100);
    std::string all;
    for (int r = 0; r < size_; ++r) all.append(board_.bytes[round][r], bytes.size());
    return all;
  }

 private:
  Board& board_;
  int rank_, size_, rounds_ = 0;
};

void run_rank(Board& board, int rank, int ranks, const std::function<void(Process&)>& body,
              const Options& options) {
  set_num_threads(1);
  BoardBootstrap bootstrap(board, rank, ranks);
  const auto arena = rank == options.without_arena ? nullptr : SharedArena::create(options.arena);
  std::vector<int> world;
  for (int r = 0; r < ranks; ++r) world.push_back(r);
  const JoinedProcesses joined = join_processes(arena, bootstrap, world);
  if (!joined.shared) throw std::runtime_error("not joined: " + joined.obstacle);
  const auto self = std::make_shared<node::NodeRank>(joined.shared, rank,
                                                     node::NodeRankOptions{.timeout = options.timeout});
  const auto communicator = make_node_communicator(self, bootstrap, "world", std::make_shared<Ledger>());
  Process process{*communicator, *arena};
  try {
    body(process);
  } catch (const std::exception& error) {
    joined.shared->fail(node::FailureRecord::failed, rank, error.what());
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
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory to share with child processes");
  Board& board = *new (memory) Board;
  std::vector<pid_t> children;
  for (int r = 0; r < ranks; ++r) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        run_rank(board, r, ranks, body, options);
      } catch (const std::exception& error) {
        std::strncpy(board.errors[r], error.what(), sizeof board.errors[r] - 1);
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  std::vector<std::string> errors;
  for (int r = 0; r < ranks; ++r)
    errors.push_back(ending_of(children[static_cast<size_t>(r)], board.errors[r]));
  ::munmap(memory, sizeof(Board));
  return errors;
}

}  // namespace tessera::dist::forked
