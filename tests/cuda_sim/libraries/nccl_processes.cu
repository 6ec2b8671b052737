// NCCL's stand-in: ranks as processes. Without arguments each case runs with 2 and 4 processes, which are
// this program again; with a case, a number of ranks and a file it is one rank, as under mpirun.
#include <nccl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "tests/cuda_sim/device_check.h"

namespace {

constexpr int n = 700;

__global__ void fill(float* x, float value, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) x[i] = value;
}

#define CHECK_NCCL(call) CHECK_EQ(static_cast<int>(call), 0)

/// What a rank has: a stream, a communicator, n and ranks x n values.
struct Rank {
  int rank = 0, ranks = 0;
  ncclUniqueId id{};
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  float *part = nullptr, *whole = nullptr;

  void begin() {
    CHECK_NCCL(ncclCommInitRank(&comm, ranks, id, rank));
    REQUIRE_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    REQUIRE_OK(cudaMalloc(&part, n * sizeof(float)));
    REQUIRE_OK(cudaMalloc(&whole, ranks * n * sizeof(float)));
  }
  void end() {
    CHECK_NCCL(ncclCommDestroy(comm));
    free_all();
  }
  void free_all() {
    CHECK_OK(cudaFree(part));
    CHECK_OK(cudaFree(whole));
    CHECK_OK(cudaStreamDestroy(stream));
  }
  void set(float* to, float value, int count) {
    fill<<<(count + 255) / 256, 256, 0, stream>>>(to, value, count);
  }
  std::vector<float> get(const float* from, int count) {
    std::vector<float> values(static_cast<size_t>(count));
    CHECK_OK(cudaStreamSynchronize(stream));
    CHECK_OK(cudaMemcpy(values.data(), from, values.size() * sizeof(float), cudaMemcpyDeviceToHost));
    return values;
  }
  ncclResult_t error() const {
    ncclResult_t result = ncclSuccess;
    CHECK_NCCL(ncclCommGetAsyncError(comm, &result));
    return result;
  }
};

void collectives(Rank& r) {
  r.begin();
  const auto mine = static_cast<float>(r.rank + 1), ranks = static_cast<float>(r.ranks);
  const float sum = ranks * (ranks + 1) / 2;
  for (int round = 0; round < 3; ++round) {
    r.set(r.part, mine, n);
    CHECK_NCCL(ncclAllReduce(r.part, r.part, n, ncclFloat, ncclSum, r.comm, r.stream));
    CHECK_EQ(r.get(r.part, n)[n - 1], sum);
  }
  r.set(r.part, mine, n);
  CHECK_NCCL(ncclAllGather(r.part, r.whole, n, ncclFloat, r.comm, r.stream));
  const auto gathered = r.get(r.whole, r.ranks * n);
  for (int rank = 0; rank < r.ranks; ++rank) CHECK_EQ(gathered[rank * n + 5], static_cast<float>(rank + 1));
  CHECK_NCCL(ncclReduceScatter(r.whole, r.part, n, ncclFloat, ncclSum, r.comm, r.stream));
  CHECK_EQ(r.get(r.part, n)[0], mine * ranks);
  r.set(r.part, mine, n);
  CHECK_NCCL(ncclBroadcast(r.part, r.part, n, ncclFloat, r.ranks - 1, r.comm, r.stream));
  CHECK_EQ(r.get(r.part, n)[n - 1], ranks);
  r.set(r.part, mine, n);
  r.set(r.whole, 0, r.ranks * n);
  CHECK_NCCL(ncclReduce(r.part, r.whole, n, ncclFloat, ncclMax, 0, r.comm, r.stream));
  CHECK_EQ(r.get(r.whole, n)[0], r.rank == 0 ? ranks : 0.0f);
  CHECK_NCCL(ncclGather(r.part, r.whole, n, ncclFloat, 1, r.comm, r.stream));
  if (r.rank == 1) CHECK_EQ(r.get(r.whole, r.ranks * n)[(r.ranks - 1) * n], ranks);
  CHECK_NCCL(ncclScatter(r.whole, r.part, n, ncclFloat, 1, r.comm, r.stream));
  CHECK_EQ(r.get(r.part, n)[1], mine);
  r.end();
}

void messages(Rank& r) {
  r.begin();
  const int next = (r.rank + 1) % r.ranks, last = (r.rank + r.ranks - 1) % r.ranks;
  r.set(r.part, static_cast<float>(r.rank), n);
  for (int round = 0; round < 3; ++round) {
    CHECK_NCCL(ncclGroupStart());
    CHECK_NCCL(ncclSend(r.part, n, ncclFloat, next, r.comm, r.stream));
    CHECK_NCCL(ncclRecv(r.whole, n, ncclFloat, last, r.comm, r.stream));
    CHECK_NCCL(ncclGroupEnd());
    CHECK_EQ(r.get(r.whole, n)[3], static_cast<float>(last));
  }
  r.end();
}

void splits(Rank& r) {
  r.begin();
  for (int round = 0; round < 3; ++round) {
    ncclComm_t part = nullptr;
    const bool takes_part = r.rank != 1;
    CHECK_NCCL(ncclCommSplit(r.comm, takes_part ? 7 : NCCL_SPLIT_NOCOLOR, -r.rank, &part, nullptr));
    CHECK_EQ(part != nullptr, takes_part);
    if (!takes_part) continue;
    int size = 0, rank = -1;
    CHECK_NCCL(ncclCommCount(part, &size));
    CHECK_NCCL(ncclCommUserRank(part, &rank));
    CHECK_EQ(size, r.ranks - 1);
    CHECK_EQ(rank, r.rank == 0 ? r.ranks - 2 : r.ranks - 1 - r.rank);
    r.set(r.part, 1, n);
    CHECK_NCCL(ncclAllReduce(r.part, r.part, n, ncclFloat, ncclSum, part, r.stream));
    CHECK_EQ(r.get(r.part, n)[0], static_cast<float>(size));
    CHECK_NCCL(ncclCommDestroy(part));
  }
  r.end();
}

void group_of_starts(Rank& r) {
  CHECK_NCCL(ncclGroupStart());
  CHECK_NCCL(ncclCommInitRank(&r.comm, r.ranks, r.id, r.rank));
  CHECK_NCCL(ncclGroupEnd());
  int size = 0;
  CHECK_NCCL(ncclCommCount(r.comm, &size));
  CHECK_EQ(size, r.ranks);
  CHECK_NCCL(ncclCommDestroy(r.comm));
}

bool mentions(const char* text) {
  return device_check::findings().find(text) != std::string::npos;
}

void disagreement(Rank& r) {
  r.begin();
  r.set(r.part, 1, n);
  CHECK_NCCL(ncclAllReduce(r.part, r.part, r.rank == 0 ? n : n - 1, ncclFloat, ncclSum, r.comm, r.stream));
  CHECK_OK(cudaStreamSynchronize(r.stream));
  if (r.rank == 0 || r.ranks == 2) {
    CHECK_EQ(static_cast<int>(r.error()), static_cast<int>(ncclInvalidUsage));
    CHECK(mentions("ranks disagree: all-reduce of"));
    CHECK(mentions("700 elements") && mentions("699 elements"));
  }
  CHECK(device_check::only("deadlock"));
  r.end();
}

/// A wait that cannot end: it is given up after the patience, or as soon as another rank gave up before.
void check_given_up(Rank& r) {
  const cudaError_t status = cudaStreamSynchronize(r.stream);
  const bool is_late = status == cudaErrorLaunchTimeout;
  CHECK(is_late || status == cudaSuccess);
  for (int rank = 0; is_late && rank < r.ranks; ++rank)
    CHECK(mentions(("rank " + std::to_string(rank)).c_str()));
  CHECK(is_late ? mentions("can never end; waiting are") : mentions("has left the communicator"));
  CHECK(device_check::only("deadlock"));
}

void swapped_order(Rank& r) {
  ncclComm_t second = nullptr;
  r.begin();
  CHECK_NCCL(ncclCommSplit(r.comm, 0, r.rank, &second, nullptr));
  r.set(r.part, 1, n);
  for (const bool first : {r.rank != 1, r.rank == 1})
    CHECK_NCCL(ncclAllReduce(r.part, r.part, n, ncclFloat, ncclSum, first ? r.comm : second, r.stream));
  check_given_up(r);
  CHECK_NCCL(ncclCommAbort(second));
  CHECK_NCCL(ncclCommAbort(r.comm));
  CHECK_OK(cudaDeviceReset());
}

void killed(Rank& r) {
  r.begin();
  if (r.rank == 1) raise(SIGKILL);
  const auto since = std::chrono::steady_clock::now();
  r.set(r.part, 1, n);
  CHECK_NCCL(ncclAllReduce(r.part, r.part, n, ncclFloat, ncclSum, r.comm, r.stream));
  CHECK_OK(cudaStreamSynchronize(r.stream));
  CHECK_EQ(static_cast<int>(r.error()), static_cast<int>(ncclRemoteError));
  CHECK(std::chrono::steady_clock::now() - since < std::chrono::seconds(10));
  CHECK(mentions("rank 1 (process") && mentions("has ended"));
  CHECK(device_check::only("deadlock"));
  CHECK_NCCL(ncclCommAbort(r.comm));
  r.free_all();
}

void absent(Rank& r) {
  r.begin();
  if (r.rank == 1) {
    std::this_thread::sleep_for(std::chrono::seconds(6));
  } else {
    r.set(r.part, 1, n);
    CHECK_NCCL(ncclAllReduce(r.part, r.part, n, ncclFloat, ncclSum, r.comm, r.stream));
    check_given_up(r);
  }
  CHECK_NCCL(ncclCommAbort(r.comm));
  CHECK_OK(cudaDeviceReset());
}

void never_joined(Rank& r) {
  if (r.rank == 1) return;
  CHECK_EQ(static_cast<int>(ncclCommInitRank(&r.comm, r.ranks, r.id, r.rank)),
           static_cast<int>(ncclSystemError));
  CHECK(device_check::only("deadlock"));
}

void aborted(Rank& r) {
  r.begin();
  if (r.rank != 1) {
    r.set(r.part, 1, n);
    CHECK_NCCL(ncclAllReduce(r.part, r.part, n, ncclFloat, ncclSum, r.comm, r.stream));
    CHECK_OK(cudaStreamSynchronize(r.stream));
    CHECK_EQ(static_cast<int>(r.error()), static_cast<int>(ncclRemoteError));
    CHECK(device_check::only("deadlock"));
  }
  CHECK_NCCL(ncclCommAbort(r.comm));
  r.free_all();
}

struct Case {
  void (*run)(Rank&);
  const char* patience;  ///< seconds
};
const std::map<std::string, Case> cases = {
    {"collectives", {collectives, "60"}},
    {"messages", {messages, "60"}},
    {"splits", {splits, "60"}},
    {"group_of_starts", {group_of_starts, "60"}},
    {"disagreement", {disagreement, "60"}},
    {"swapped_order", {swapped_order, "2"}},
    {"killed", {killed, "30"}},
    {"absent", {absent, "2"}},
    {"never_joined", {never_joined, "2"}},
    {"aborted", {aborted, "60"}},
};

/// The id, by a file that rank 0 writes, as a program without MPI may do it.
ncclUniqueId exchange_id(int rank, const std::string& path) {
  ncclUniqueId id{};
  if (rank == 0) {
    CHECK_NCCL(ncclGetUniqueId(&id));
    std::ofstream(path + ".new").write(id.internal, sizeof id);
    std::rename((path + ".new").c_str(), path.c_str());
    return id;
  }
  for (int i = 0; i < 3000; ++i) {
    if (std::ifstream file(path); file.read(id.internal, sizeof id)) return id;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::printf("rank %d: no id in %s\n", rank, path.c_str());
  std::exit(1);
}

int run_rank(const std::string& name, int rank, int ranks, const std::string& path) {
  tessera_cuda_sim_print(0);
  Rank mine;
  mine.rank = rank;
  mine.ranks = ranks;
  mine.id = exchange_id(rank, path);
  cases.at(name).run(mine);
  CHECK(device_check::none());
  if (device_check::failures != 0) std::printf("in case %s, rank %d of %d\n", name.c_str(), rank, ranks);
  std::fflush(stdout);
  return device_check::failures == 0 ? 0 : 1;
}

/// Whether the communicator of the id in the file has left a file in the shared memory of the host.
bool is_left_over(const std::string& path) {
  ncclUniqueId id{};
  std::ifstream(path).read(id.internal, sizeof id);
  uint64_t words[2];  // as the name of the file has them
  std::memcpy(words, id.internal + 24, sizeof words);
  char name[96];
  std::snprintf(name, sizeof name, "/dev/shm/tessera-cuda-sim-%016llx%016llx",
                static_cast<unsigned long long>(words[0]), static_cast<unsigned long long>(words[1]));
  struct stat status {};
  return stat(name, &status) == 0;
}

void run_case(const std::string& name, int ranks) {
  const std::string path = std::filesystem::temp_directory_path().string() + "/nccl_processes." +
                           std::to_string(getpid()) + "." + name;
  setenv("TESSERA_CUDA_SIM_PATIENCE", cases.at(name).patience, 1);
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      execl("/proc/self/exe", "nccl_processes", name.c_str(), std::to_string(ranks).c_str(), path.c_str(),
            std::to_string(rank).c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    children.push_back(child);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    int status = 0;
    waitpid(children[static_cast<size_t>(rank)], &status, 0);
    const bool is_killed =
        WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && rank == 1 && name == "killed";
    if (!is_killed) CHECK_EQ(status, 0);
  }
  CHECK(!is_left_over(path));
  unlink(path.c_str());
}

int number_in_environment(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace

/// [case [ranks file [rank]]]: the rank of mpirun where none is given.
int main(int argc, char** argv) {
  if (argc > 3)
    return run_rank(argv[1], argc > 4 ? std::atoi(argv[4]) : number_in_environment("OMPI_COMM_WORLD_RANK"),
                    std::atoi(argv[2]), argv[3]);
  for (const auto& [name, one] : cases) {
    if (argc > 1 && name != argv[1]) continue;
    for (const int ranks : {2, 4}) {
      const int before = device_check::failures;
      run_case(name, ranks);
      if (device_check::failures != before) std::printf("in case %s of %d ranks\n", name.c_str(), ranks);
    }
  }
  std::printf("%d checks, %d failed\n", device_check::checks, device_check::failures);
  return device_check::failures == 0 ? 0 : 1;
}
