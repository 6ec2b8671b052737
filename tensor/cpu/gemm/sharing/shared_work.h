#pragma once  // internal

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {

/// As few of `threads` as have done `count` equal jobs no later than all of them.
inline int64_t threads_in_use(int64_t count, int64_t threads) {
  const int64_t most = std::max<int64_t>((count + threads - 1) / threads, 1);
  return std::max<int64_t>((count + most - 1) / most, 1);
}

/// Items of work that belong to threads, each of which begins with its own, in their order, and then takes
/// some of the others'. A thread that is delayed (by another program on its core, or a slower core) then does
/// not delay the whole. Threads that have no items left look at those of their own group of eight first, and
/// at other groups only while these have any: what a thread reads at the end does not grow with the square of
/// their number.
class SharedWork {
 public:
  explicit SharedWork(int64_t threads)
      : threads_(threads),
        begun_(static_cast<size_t>(threads)),
        empty_(static_cast<size_t>((threads + group - 1) / group)) {}

  /// begin() gives each thread its worker, and worker(owner, i) is called once for each item i of
  /// 0 .. count(owner) of every owner.
  template <class Count, class Begin>
  void for_each(const Count& count, const Begin& begin) {
    parallel_for(threads_, 1, [&](int64_t first, int64_t last) {
      auto worker = begin();
      for (int64_t thread = first; thread < last; ++thread) take_all(thread, count, worker);
    });
  }

  /// The same for items 0 .. `all`, of which every thread owns a run of equally many or one more: worker(i).
  template <class Begin>
  void for_each_item(int64_t all, const Begin& begin) {
    const auto first_of = [&](int64_t thread) { return all * thread / threads_; };
    for_each([&](int64_t owner) { return first_of(owner + 1) - first_of(owner); },
             [&] {
               return
                   [&, worker = begin()](int64_t owner, int64_t i) mutable { worker(first_of(owner) + i); };
             });
  }

 private:
  static constexpr int64_t group = 8;
  struct alignas(64) Begun {
    std::atomic<int64_t> items{0};
  };
  struct alignas(64) Empty {
    std::atomic<bool> value{false};
  };

  template <class Count, class Worker>
  void take_all(int64_t thread, const Count& count, Worker& worker) {
    const auto groups = static_cast<int64_t>(empty_.size()), own = thread / group;
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t index = (own + g) % groups, first = index * group,
                    members = std::min(group, threads_ - first);
      Empty& empty = empty_[static_cast<size_t>(index)];
      if (empty.value.load(std::memory_order_relaxed)) continue;
      for (int64_t i = 0; i < members; ++i) {
        const int64_t owner = first + (thread % group + i) % members;
        take_from(owner, count(owner), worker);
      }
      empty.value.store(true, std::memory_order_relaxed);
    }
  }

  template <class Worker>
  void take_from(int64_t owner, int64_t count, Worker& worker) {
    std::atomic<int64_t>& begun = begun_[static_cast<size_t>(owner)].items;
    while (begun.load(std::memory_order_relaxed) < count) {
      const int64_t i = begun.fetch_add(1, std::memory_order_relaxed);
      if (i >= count) return;
      worker(owner, i);
    }
  }

  int64_t threads_;
  std::vector<Begun> begun_;  // items of each thread
  std::vector<Empty> empty_;  // groups of threads that have no item left
};

}  // namespace tessera::kernels::cpu
