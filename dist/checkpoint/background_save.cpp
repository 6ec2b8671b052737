#include "dist/checkpoint/background_save.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <mutex>

#include "dist/checkpoint/distributed_checkpoint.h"
#include "dist/checkpoint/own_shards.h"
#include "dist/checkpoint/rank_agreement.h"
#include "dist/checkpoint/rank_save.h"
#include "tensor/io/file.h"
#include "tensor/memory/account.h"

namespace tessera::dist {
namespace {

/// How often rank 0 checks whether the other ranks have written.
constexpr std::chrono::milliseconds poll_interval{10};
/// The largest report of one rank that is read, in bytes.
constexpr int64_t report_size_limit = meta_size_limit;

/// Of the tensors in the copy, in bytes.
constexpr int64_t alignment = 64;

int64_t padded(int64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Copies the tensors of all shards into one allocation on the CPU.
std::vector<GroupShard> copy_shards(std::vector<GroupShard> groups) {
  CategoryScope category(MemoryCategory::other);
  int64_t bytes = 0;
  for (const GroupShard& group : groups)
    for (const TensorShard& shard : group.shards) bytes += padded(shard.tensor.nbytes());
  const Tensor arena = Tensor::empty({bytes}, u8);
  int64_t offset = 0;
  for (GroupShard& group : groups)
    for (TensorShard& shard : group.shards) {
      const Shape& shape = shard.tensor.shape();
      const Tensor copy = Tensor::over(arena.storage(), shard.tensor.dtype(), shape,
                                       contiguous_strides(shape), offset / size_of(shard.tensor.dtype()));
      copy.copy_from(shard.tensor.to(cpu()));
      offset += padded(shard.tensor.nbytes());
      shard.tensor = copy;
    }
  return groups;
}

/// A rank's report: a file with its records, which exists when the rank's other files are complete.
std::string report_path(const std::string& folder, int rank) {
  return text(folder, "/report-", rank);
}

}  // namespace

/// The save in flight, on this rank.
struct BackgroundSave::PendingSave {
  StartedSave save;
  int rank = 0, size = 1;
  TrainingState state;
  SaveOptions options;
  std::vector<GroupShard> groups;

  std::atomic<bool> abandoned{false};
  std::mutex mutex;
  std::condition_variable changed;
  bool written = false;     // this rank's files: written or failed
  bool finished = false;    // on rank 0 also: published or failed
  std::string write_error;  // "" when written
  std::string publish_error, published;
  std::thread thread;

  ~PendingSave() {
    abandoned = true;
    if (thread.joinable()) thread.join();
  }

  void run() {
    const std::string error = error_text([&] { write(); });
    groups.clear();  // frees the copy
    {
      const std::lock_guard lock(mutex);
      written = true;
      write_error = error;
    }
    changed.notify_all();
    if (save.writer && error.empty()) publish_error = error_text([&] { publish_all(); });
    {
      const std::lock_guard lock(mutex);
      finished = true;
    }
    changed.notify_all();
  }

  void write() {
    const std::vector<FileRecord> records = write_files(save.folder, rank, size, groups);
    io::write_text_file(report_path(save.folder, rank), to_text(records));
  }

  void publish_all() {
    std::vector<std::string> reports;
    for (int peer = 0; peer < size; ++peer) {
      const std::string path = report_path(save.folder, peer);
      std::error_code ignored;
      while (!std::filesystem::exists(path, ignored)) {
        if (abandoned) return;
        std::this_thread::sleep_for(poll_interval);
      }
      reports.push_back(io::read_text_file(path, report_size_limit));
      std::filesystem::remove(path, ignored);
    }
    published = publish(*save.writer, reports, state, options);
  }

  /// Waits until `stage` is true, for at most `limit`; returns `stage`.
  bool wait_for(const bool& stage, std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, limit, [&] { return stage; });
  }
};

BackgroundSave::BackgroundSave(std::shared_ptr<Communicator> world) : world_(std::move(world)) {}
BackgroundSave::~BackgroundSave() = default;

void BackgroundSave::start(const std::string& root, const TrainingState& state,
                           std::span<const GroupShard> groups, const SaveOptions& options) {
  wait();
  auto pending = std::make_unique<PendingSave>();
  pending->rank = world_->rank();
  pending->size = world_->size();
  pending->state = state;
  pending->options = options;
  pending->save = start_save(*world_, root, state.step);
  const std::vector<GroupShard> named = name_own_shards(*world_, groups);
  run_on_all(*world_, [&] { pending->groups = copy_shards(groups_to_write(named)); });
  pending->thread = std::thread([work = pending.get()] { work->run(); });
  pending_ = std::move(pending);
}

std::string BackgroundSave::wait() {
  if (!pending_) return "";
  const std::unique_ptr<PendingSave> pending = std::move(pending_);
  const auto wait_for_stage = [&](const bool& stage) {
    wait_for_all(*world_,
                 [&](std::chrono::milliseconds interval) { return pending->wait_for(stage, interval); });
  };
  wait_for_stage(pending->written);
  // When every rank has written, all reports exist, so that rank 0's thread does not wait for ever.
  require_no_error(*world_, pending->write_error);
  wait_for_stage(pending->finished);
  pending->thread.join();
  require_no_error(*world_, pending->publish_error);
  return broadcast_text(*world_, pending->published);
}

}  // namespace tessera::dist
