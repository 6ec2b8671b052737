// Host threads that stay between launches.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera::cuda_sim {

/// Helpers that carry out the blocks of launches beside the thread that launches. They start when they are
/// first needed: a launch takes less time than a thread's start and its first allocations.
class HostThreads {
 public:
  HostThreads() = default;
  ~HostThreads();
  HostThreads(const HostThreads&) = delete;
  HostThreads& operator=(const HostThreads&) = delete;

  /// Calls `work`, which throws nothing, on `count` threads at once, this one among them, and returns when
  /// all calls have returned. Launches of several threads take turns.
  void run(uint64_t count, const std::function<void()>& work);

 private:
  void help(uint64_t number);

  std::mutex turn_;
  std::mutex mutex_;
  std::condition_variable begins_, ended_;
  std::vector<std::thread> helpers_;
  const std::function<void()>* work_ = nullptr;
  std::atomic<uint64_t> launch_ = 0;
  uint64_t wanted_ = 0;
  std::atomic<uint64_t> running_ = 0;
  std::atomic<bool> stops_ = false;
};

}  // namespace tessera::cuda_sim
