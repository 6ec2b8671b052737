// What ranks that are processes share: a file in memory, named by the communicator's id and without a name
// once all have joined.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace tessera::cuda_sim::nccl {

/// A call as the processes of other ranks see it. Its own rank writes it, and takes it back once all have
/// read it.
struct SharedCall {
  enum State : uint32_t { none, stands, refused };
  std::atomic<uint32_t> state;    ///< refused: its rank could not carry it out
  std::atomic<uint32_t> readers;  ///< that have not read it yet
  uint32_t kind, type, reduction;
  int32_t root;
  uint64_t index, count;
  uint64_t offset, bytes;  ///< of its data in the file
};

/// All ranks of a team in one file. Zeros are its initial state, so that whoever opens it first need not
/// write it.
class SharedTeam {
 public:
  /// Opens the file `name` as `rank` of `ranks`. Null where the host has no shared memory, or where the rank
  /// has joined before.
  static std::unique_ptr<SharedTeam> join(const std::string& name, int ranks, int rank);
  ~SharedTeam();
  SharedTeam(const SharedTeam&) = delete;
  SharedTeam& operator=(const SharedTeam&) = delete;

  bool has_all() const;
  /// False: some have not joined in that time.
  bool wait_for_all(std::chrono::milliseconds patience);
  bool is_one_process() const;
  /// Calls `on_change` in a thread of its own when another rank did something or ended, until the team is
  /// left.
  void watch(std::function<void()> on_change);

  /// Shows a call; `data` is what others read of it. False: too many calls are not read yet, or memory is
  /// short.
  bool publish(const SharedCall& call, std::span<const std::byte> data, uint32_t readers);
  /// The call of `rank` that `is_wanted` describes; null where it is not there.
  SharedCall* find(int rank, const std::function<bool(const SharedCall&)>& is_wanted) const;
  /// Reads a call's data from `begin` on. False: an error of the host.
  bool read(const SharedCall& call, uint64_t begin, std::span<std::byte> to) const;
  void set_read(SharedCall& call);

  /// One entry of a split. `answers` becomes those of all ranks; false: some do not come.
  struct SplitEntry {
    int32_t color, key;
  };
  bool exchange_split(SplitEntry mine, std::span<SplitEntry> all, std::chrono::milliseconds patience);

  /// Whether the rank's process has ended, or has left the team.
  bool is_gone(int rank) const;
  /// What this rank waits for, for the reports of others.
  void set_queue(const std::string& text);
  /// "rank 1 (process 4711): all-reduce ..." of each other rank, a line each.
  std::string describe_others() const;
  std::string describe_rank(int rank) const;
  const std::string& name() const { return name_; }

 private:
  struct File;
  SharedTeam(std::string name, std::shared_ptr<File> file, int ranks, int rank);
  void announce();
  bool wait_until(const std::function<bool()>& condition, std::chrono::milliseconds patience);

  std::string name_;
  std::shared_ptr<File> file_;
  int ranks_, rank_;
  uint64_t next_offset_ = 0;
  uint32_t splits_ = 0;
};

}  // namespace tessera::cuda_sim::nccl
