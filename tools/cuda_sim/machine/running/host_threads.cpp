#include "tools/cuda_sim/machine/running/host_threads.h"

#include <chrono>

namespace tessera::cuda_sim {

namespace {

/// Waits a moment before a thread goes to sleep: launches often follow each other at once, and to wake a
/// thread, and to find it a processor, takes as long as a small launch.
template <class Condition>
void wait_awake(Condition condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
  while (!condition() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
}

}  // namespace

HostThreads::~HostThreads() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  begins_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void HostThreads::run(uint64_t count, const std::function<void()>& work) {
  if (count <= 1) {
    work();
    return;
  }
  const std::lock_guard turn(turn_);
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    wanted_ = running_ = count - 1;
    ++launch_;
    while (helpers_.size() < wanted_)
      helpers_.emplace_back([this, number = helpers_.size()] { help(number); });
  }
  begins_.notify_all();
  work();
  wait_awake([this] { return running_ == 0; });
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return running_ == 0; });
}

void HostThreads::help(uint64_t number) {
  uint64_t seen = 0;
  while (true) {
    wait_awake([&] { return stops_ || launch_ != seen; });
    std::unique_lock lock(mutex_);
    begins_.wait(lock, [&] { return stops_ || (launch_ != seen && number < wanted_); });
    if (stops_) return;
    seen = launch_;
    const std::function<void()>& work = *work_;
    lock.unlock();
    work();
    lock.lock();
    if (--running_ == 0) ended_.notify_all();
    lock.unlock();
  }
}

}  // namespace tessera::cuda_sim
