// NCCL's stand-in: ranks as threads; what they compute, and the faults that it finds.
#include <nccl.h>

#include <functional>
#include <thread>
#include <vector>

#include "tests/cuda_sim/device_check.h"

namespace {

constexpr int ranks = 3, n = 512;

__global__ void fill(float* x, float value, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) x[i] = value;
}
__global__ void number(float* x, float first, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) x[i] = first + static_cast<float>(i);
}
__global__ void axpy(float* p, const float* g, float a, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) p[i] += a * g[i];
}

#define CHECK_NCCL(call) CHECK_EQ(static_cast<int>(call), 0)

/// What a rank has: a stream, a communicator, blocks of n and of ranks x n values.
struct Rank {
  int rank;
  ncclComm_t comm;
  cudaStream_t stream;
  float *part, *whole;
  float host[ranks * n];
  Rank(int r, const ncclUniqueId& id) : rank(r) {
    CHECK_NCCL(ncclCommInitRank(&comm, ranks, id, rank));
    REQUIRE_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    REQUIRE_OK(cudaMalloc(&part, n * sizeof(float)));
    REQUIRE_OK(cudaMalloc(&whole, ranks * n * sizeof(float)));
  }
  void end() {
    CHECK_OK(cudaStreamSynchronize(stream));
    CHECK_NCCL(ncclCommDestroy(comm));
    CHECK_OK(cudaFree(part));
    CHECK_OK(cudaFree(whole));
    CHECK_OK(cudaStreamDestroy(stream));
  }
  const float* get(const float* from, int count) {
    CHECK_OK(cudaStreamSynchronize(stream));
    CHECK_OK(cudaMemcpy(host, from, count * sizeof(float), cudaMemcpyDeviceToHost));
    return host;
  }
};

/// Runs `body(rank, id)` in a thread for each rank.
void on_ranks(const std::function<void(int, const ncclUniqueId&)>& body) {
  ncclUniqueId id;
  CHECK_NCCL(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&, rank] { body(rank, id); });
  for (std::thread& thread : threads) thread.join();
}

void with_ranks(const std::function<void(Rank&)>& body) {
  on_ranks([&](int rank, const ncclUniqueId& id) {
    Rank mine(rank, id);
    body(mine);
    mine.end();
  });
}

}  // namespace

TEST_CASE("collectives compute what their names say") {
  with_ranks([](Rank& r) {
    const auto mine = static_cast<float>(r.rank + 1);
    fill<<<2, 256, 0, r.stream>>>(r.part, mine, n);
    CHECK_NCCL(ncclAllReduce(r.part, r.part, n, ncclFloat, ncclSum, r.comm, r.stream));
    CHECK(r.get(r.part, n)[n - 1] == 6);
    fill<<<2, 256, 0, r.stream>>>(r.part, mine, n);
    CHECK_NCCL(ncclAllReduce(r.part, r.part, n, ncclFloat, ncclAvg, r.comm, r.stream));
    CHECK(r.get(r.part, n)[0] == 2);
    fill<<<2, 256, 0, r.stream>>>(r.part, mine, n);
    CHECK_NCCL(ncclAllGather(r.part, r.whole, n, ncclFloat, r.comm, r.stream));
    const float* whole = r.get(r.whole, ranks * n);
    CHECK(whole[0] == 1 && whole[n] == 2 && whole[ranks * n - 1] == 3);
    number<<<6, 256, 0, r.stream>>>(r.whole, mine, ranks * n);
    CHECK_NCCL(ncclReduceScatter(r.whole, r.part, n, ncclFloat, ncclSum, r.comm, r.stream));
    CHECK(r.get(r.part, n)[1] == 6 + 3 * (r.rank * n + 1));
    fill<<<2, 256, 0, r.stream>>>(r.part, mine, n);
    CHECK_NCCL(ncclBroadcast(r.part, r.part, n, ncclFloat, 1, r.comm, r.stream));
    CHECK(r.get(r.part, n)[5] == 2);
    fill<<<2, 256, 0, r.stream>>>(r.part, mine, n);
    fill<<<6, 256, 0, r.stream>>>(r.whole, 0, ranks * n);
    CHECK_NCCL(ncclReduce(r.part, r.whole, n, ncclFloat, ncclMax, 2, r.comm, r.stream));
    CHECK(r.get(r.whole, n)[0] == (r.rank == 2 ? 3.f : 0.f));
    CHECK_NCCL(ncclGather(r.part, r.whole, n, ncclFloat, 0, r.comm, r.stream));
    CHECK(r.get(r.whole, 2 * n)[n] == (r.rank == 0 ? 2.f : r.rank == 2 ? 3.f : 0.f) || r.rank == 2);
    number<<<6, 256, 0, r.stream>>>(r.whole, 0, ranks * n);
    CHECK_NCCL(ncclScatter(r.whole, r.part, n, ncclFloat, 0, r.comm, r.stream));
    CHECK(r.get(r.part, n)[0] == static_cast<float>(r.rank * n));
  });
  CHECK(device_check::none());
}

TEST_CASE("ranks send and receive in a ring, in a group") {
  with_ranks([](Rank& r) {
    fill<<<2, 256, 0, r.stream>>>(r.part, static_cast<float>(r.rank), n);
    CHECK_NCCL(ncclGroupStart());
    CHECK_NCCL(ncclSend(r.part, n, ncclFloat, (r.rank + 1) % ranks, r.comm, r.stream));
    CHECK_NCCL(ncclRecv(r.whole, n, ncclFloat, (r.rank + ranks - 1) % ranks, r.comm, r.stream));
    CHECK_NCCL(ncclGroupEnd());
    CHECK(r.get(r.whole, n)[3] == static_cast<float>((r.rank + ranks - 1) % ranks));
  });
  CHECK(device_check::none());
}

TEST_CASE("a ring of sends without a group is a deadlock, reported with each queue") {
  on_ranks([](int rank, const ncclUniqueId& id) {
    Rank r(rank, id);
    fill<<<2, 256, 0, r.stream>>>(r.part, 1, n);
    CHECK_NCCL(ncclSend(r.part, n, ncclFloat, (r.rank + 1) % ranks, r.comm, r.stream));
    CHECK_NCCL(ncclRecv(r.whole, n, ncclFloat, (r.rank + ranks - 1) % ranks, r.comm, r.stream));
    CHECK_EQ(cudaStreamSynchronize(r.stream), cudaErrorLaunchTimeout);
    CHECK_NCCL(ncclCommAbort(r.comm));
  });
  CHECK_OK(cudaDeviceReset());
  const std::string text = device_check::findings();
  for (const char* queue :
       {"number 0 of rank 0", "number 0 of rank 1", "number 0 of rank 2", "then receive of 512"})
    CHECK(text.find(queue) != std::string::npos);
  CHECK(device_check::only("deadlock"));
}

TEST_CASE("two collectives in another order on one rank are a deadlock") {
  ncclUniqueId other;
  CHECK_NCCL(ncclGetUniqueId(&other));
  on_ranks([&](int rank, const ncclUniqueId& id) {
    Rank r(rank, id);
    ncclComm_t second;
    CHECK_NCCL(ncclCommInitRank(&second, ranks, other, rank));
    fill<<<2, 256, 0, r.stream>>>(r.part, 1, n);
    for (const bool first : {rank != 1, rank == 1})
      CHECK_NCCL(ncclAllReduce(r.part, r.part, n, ncclFloat, ncclSum, first ? r.comm : second, r.stream));
    CHECK_EQ(cudaStreamSynchronize(r.stream), cudaErrorLaunchTimeout);
    CHECK_NCCL(ncclCommAbort(second));
    CHECK_NCCL(ncclCommAbort(r.comm));
  });
  CHECK_OK(cudaDeviceReset());
  CHECK(device_check::only("deadlock"));
}

TEST_CASE("a rank that stays away is reported once every other one waits") {
  on_ranks([](int rank, const ncclUniqueId& id) {
    Rank r(rank, id);
    if (rank == 2) {
      CHECK_NCCL(ncclCommDestroy(r.comm));
      return;
    }
    fill<<<2, 256, 0, r.stream>>>(r.part, 1, n);
    CHECK_NCCL(ncclAllReduce(r.part, r.part, n, ncclFloat, ncclSum, r.comm, r.stream));
    CHECK_EQ(cudaStreamSynchronize(r.stream), cudaErrorLaunchTimeout);
    CHECK_NCCL(ncclCommAbort(r.comm));
  });
  CHECK_OK(cudaDeviceReset());
  CHECK(device_check::only("deadlock"));
}

TEST_CASE("a communicator is split") {
  with_ranks([](Rank& r) {
    ncclComm_t part = nullptr;
    CHECK_NCCL(ncclCommSplit(r.comm, r.rank == 1 ? NCCL_SPLIT_NOCOLOR : 7, -r.rank, &part, nullptr));
    if (r.rank == 1) {
      CHECK(part == nullptr);
      return;
    }
    int size = 0, rank = -1;
    CHECK_NCCL(ncclCommCount(part, &size));
    CHECK_NCCL(ncclCommUserRank(part, &rank));
    CHECK_EQ(size, 2);
    CHECK_EQ(rank, r.rank == 2 ? 0 : 1);
    fill<<<2, 256, 0, r.stream>>>(r.part, static_cast<float>(r.rank), n);
    CHECK_NCCL(ncclAllReduce(r.part, r.part, n, ncclFloat, ncclSum, part, r.stream));
    CHECK(r.get(r.part, n)[0] == 2);
    CHECK_NCCL(ncclCommDestroy(part));
  });
  CHECK(device_check::none());
}

TEST_CASE("ranks that disagree get an error that says so") {
  with_ranks([](Rank& r) {
    fill<<<2, 256, 0, r.stream>>>(r.part, 1, n);
    CHECK_NCCL(ncclAllReduce(r.part, r.part, r.rank == 0 ? n : n - 1, ncclFloat, ncclSum, r.comm, r.stream));
    CHECK_OK(cudaStreamSynchronize(r.stream));
    ncclResult_t error = ncclSuccess;
    CHECK_NCCL(ncclCommGetAsyncError(r.comm, &error));
    CHECK_EQ(static_cast<int>(error), static_cast<int>(ncclInvalidUsage));
  });
  CHECK(device_check::only("deadlock"));
}

TEST_CASE("bad arguments are refused") {
  with_ranks([](Rank& r) {
    CHECK_EQ(static_cast<int>(ncclBroadcast(r.part, r.part, n, ncclFloat, ranks, r.comm, r.stream)),
             static_cast<int>(ncclInvalidArgument));
    CHECK_EQ(static_cast<int>(ncclAllReduce(nullptr, r.part, n, ncclFloat, ncclSum, r.comm, r.stream)),
             static_cast<int>(ncclInvalidArgument));
    CHECK_EQ(static_cast<int>(ncclSend(r.part, n, ncclFloat, -1, r.comm, r.stream)),
             static_cast<int>(ncclInvalidArgument));
  });
}

/// A training step as FSDP has it: the gradients' reduce-scatter on its own stream.
void steps(int missing_wait) {
  on_ranks([&](int rank, const ncclUniqueId& id) {
    Rank r(rank, id);
    cudaStream_t communication;
    cudaEvent_t gradients_done, shard_done;
    float* shard;
    REQUIRE_OK(cudaStreamCreateWithFlags(&communication, cudaStreamNonBlocking));
    REQUIRE_OK(cudaEventCreateWithFlags(&gradients_done, cudaEventDisableTiming));
    REQUIRE_OK(cudaEventCreateWithFlags(&shard_done, cudaEventDisableTiming));
    REQUIRE_OK(cudaMalloc(&shard, n * sizeof(float)));
    fill<<<2, 256, 0, r.stream>>>(r.part, 1, n);
    for (int step = 0; step < 3; ++step) {
      fill<<<6, 256, 0, r.stream>>>(r.whole, static_cast<float>(rank + 1), ranks * n);
      CHECK_OK(cudaEventRecord(gradients_done, r.stream));
      if (missing_wait != 1) CHECK_OK(cudaStreamWaitEvent(communication, gradients_done, 0));
      CHECK_NCCL(ncclReduceScatter(r.whole, shard, n, ncclFloat, ncclSum, r.comm, communication));
      CHECK_OK(cudaEventRecord(shard_done, communication));
      if (missing_wait != 2) CHECK_OK(cudaStreamWaitEvent(r.stream, shard_done, 0));
      axpy<<<2, 256, 0, r.stream>>>(r.part, shard, 1, n);
      CHECK_OK(cudaEventRecord(gradients_done, r.stream));
      CHECK_OK(cudaStreamWaitEvent(communication, gradients_done, 0));
    }
    CHECK_OK(cudaStreamSynchronize(communication));
    if (missing_wait == 0) CHECK(r.get(r.part, n)[n - 1] == 19);
    r.end();
    CHECK_OK(cudaFree(shard));
    CHECK_OK(cudaEventDestroy(gradients_done));
    CHECK_OK(cudaEventDestroy(shard_done));
    CHECK_OK(cudaStreamDestroy(communication));
  });
}

TEST_CASE("a step with all waits is clean, and each missing one is found") {
  steps(0);
  CHECK(device_check::none());
  for (const int missing_wait : {1, 2}) {
    steps(missing_wait);
    CHECK(tessera_cuda_sim_findings_of("stream-race") != 0);
    tessera_cuda_sim_clear_findings();
  }
}

TEST_CASE("one thread is all ranks, in groups") {
  ncclComm_t comms[2];
  const int devices[2] = {0, 0};
  CHECK_NCCL(ncclCommInitAll(comms, 2, devices));
  cudaStream_t streams[2];
  float* blocks[2];
  for (int i = 0; i < 2; ++i) {
    CHECK_OK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    CHECK_OK(cudaMalloc(&blocks[i], n * sizeof(float)));
    fill<<<2, 256, 0, streams[i]>>>(blocks[i], static_cast<float>(i + 1), n);
  }
  CHECK_NCCL(ncclGroupStart());
  for (int i = 0; i < 2; ++i)
    CHECK_NCCL(ncclAllReduce(blocks[i], blocks[i], n, ncclFloat, ncclProd, comms[i], streams[i]));
  CHECK_NCCL(ncclGroupEnd());
  CHECK_OK(cudaDeviceSynchronize());
  for (int i = 0; i < 2; ++i) {
    float value = 0;
    CHECK_OK(cudaMemcpy(&value, blocks[i], sizeof value, cudaMemcpyDeviceToHost));
    CHECK(value == 2);
    CHECK_NCCL(ncclCommDestroy(comms[i]));
    CHECK_OK(cudaFree(blocks[i]));
    CHECK_OK(cudaStreamDestroy(streams[i]));
  }
  CHECK(device_check::none());
}

int main(int argc, char** argv) {
  return device_check::run(argc, argv);
}
