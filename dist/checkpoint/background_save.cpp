#include "dist/checkpoint/background_save.h"

#include <chrono>
#include <filesystem>
#include <future>
#include <stop_token>
#include <thread>
#include <utility>

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

/// A rank's report: a file with its records, which exists when the rank's other files are complete. The
/// writing threads have no communicator to send records by.
std::string report_path(const std::string& folder, int rank) {
  return text(folder, "/report-", rank);
}

/// Waits for the reports of all ranks, in rank order, and removes them. Fewer where it is stopped before.
std::vector<std::string> take_reports(const std::string& folder, int size, const std::stop_token& stop) {
  std::vector<std::string> reports;
  for (int rank = 0; rank < size; ++rank) {
    const std::string path = report_path(folder, rank);
    std::error_code ignored;
    while (!std::filesystem::exists(path, ignored)) {
      if (stop.stop_requested()) return reports;
      std::this_thread::sleep_for(poll_interval);
    }
    reports.push_back(io::read_text_file(path, report_size_limit));
    std::filesystem::remove(path, ignored);
  }
  return reports;
}

}  // namespace

/// The save in flight, on this rank.
struct BackgroundSave::PendingSave {
  RankSave save;
  TrainingState state;
  SaveOptions options;
  std::vector<GroupShard> copy;  // until it is written
  std::packaged_task<void()> write{[this] { write_copy(); }};
  std::packaged_task<void(const std::stop_token&)> publish{
      [this](const std::stop_token& stop) { publish_reports(stop); }};
  std::future<void> written = write.get_future(), published = publish.get_future();
  std::jthread thread;  // the last member: it ends before the others are destroyed

  PendingSave(Communicator& world, const std::string& root, const TrainingState& training_state,
              std::span<const GroupShard> groups, const SaveOptions& save_options)
      : save(world, root, training_state.step, groups), state(training_state), options(save_options) {}

  void begin() {
    thread = std::jthread([this](const std::stop_token& stop) {
      write();
      publish(stop);
    });
  }

  void write_copy() {
    const std::vector<GroupShard> shards = std::exchange(copy, {});  // freed when this returns
    io::write_text_file(report_path(save.folder(), save.rank()), save.write(shards));
  }

  void publish_reports(const std::stop_token& stop) {
    if (save.rank() != 0) return;
    const std::vector<std::string> reports = take_reports(save.folder(), save.size(), stop);
    if (std::ssize(reports) == save.size()) save.publish(reports, state, options);
  }
};

BackgroundSave::BackgroundSave(std::shared_ptr<Communicator> world) : world_(std::move(world)) {}
BackgroundSave::~BackgroundSave() = default;

void BackgroundSave::start(const std::string& root, const TrainingState& state,
                           std::span<const GroupShard> groups, const SaveOptions& options) {
  wait();
  auto pending = std::make_unique<PendingSave>(*world_, root, state, groups, options);
  run_on_all(*world_, [&] { pending->copy = copy_shards(pending->save.take_shards()); });
  pending->begin();
  pending_ = std::move(pending);
}

std::string BackgroundSave::wait() {
  if (!pending_) return "";
  const std::unique_ptr<PendingSave> pending = std::move(pending_);
  finish_on_all(*world_, pending->written);
  // Every rank has written, so all reports exist, and the wait of rank 0's thread ends.
  finish_on_all(*world_, pending->published);
  return pending->save.published_folder(*world_);
}

}  // namespace tessera::dist
