#include "dist/checkpoint/background_save.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <mutex>

#include "dist/checkpoint/distributed_checkpoint.h"
#include "dist/checkpoint/own_pieces.h"
#include "dist/checkpoint/rank_agreement.h"
#include "dist/checkpoint/rank_save.h"
#include "tensor/io/file.h"
#include "tensor/memory/account.h"

namespace tessera::dist {
namespace {

/// How often rank 0 looks whether the other ranks have written.
constexpr std::chrono::milliseconds look_interval{10};
/// The largest record of one rank that is read, in bytes.
constexpr int64_t report_limit = meta_size_limit;

/// Tensors start at multiples of this many bytes of the copy.
constexpr int64_t alignment = 64;

int64_t padded(int64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// The pieces with numbers of their own, in one allocation.
std::vector<PieceGroup> copy_of(std::vector<PieceGroup> groups) {
  CategoryScope category(MemoryCategory::other);
  int64_t bytes = 0;
  for (const PieceGroup& group : groups)
    for (const TensorPiece& piece : group.pieces) bytes += padded(piece.tensor.nbytes());
  const Tensor arena = Tensor::empty({bytes}, u8);
  int64_t offset = 0;
  for (PieceGroup& group : groups)
    for (TensorPiece& piece : group.pieces) {
      const Shape& shape = piece.tensor.shape();
      const Tensor copy = Tensor::over(arena.storage(), piece.tensor.dtype(), shape,
                                       contiguous_strides(shape), offset / size_of(piece.tensor.dtype()));
      copy.copy_from(piece.tensor.to(cpu()));
      offset += padded(piece.tensor.nbytes());
      piece.tensor = copy;
    }
  return groups;
}

/// Where a rank says that its files are there, and what is in them.
std::string report_path(const std::string& folder, int rank) {
  return text(folder, "/report-", rank);
}

}  // namespace

/// One save in flight, as this rank has its part in it.
struct BackgroundSave::Flight {
  BegunSave save;
  int rank = 0, size = 1;
  TrainingState state;
  SaveOptions options;
  std::vector<PieceGroup> groups;

  std::atomic<bool> abandoned{false};
  std::mutex mutex;
  std::condition_variable changed;
  bool written = false;       // this rank's part is, or has failed
  bool finished = false;      // besides, on rank 0: published, or has failed
  std::string write_problem;  // why it has failed
  std::string publish_problem, published;
  std::thread thread;

  ~Flight() {
    abandoned = true;
    if (thread.joinable()) thread.join();
  }

  void run() {
    const std::string problem = problem_in([&] { write(); });
    groups.clear();  // the copy's memory, whatever happens next
    {
      const std::lock_guard lock(mutex);
      written = true;
      write_problem = problem;
    }
    changed.notify_all();
    if (save.writer && problem.empty()) publish_problem = problem_in([&] { publish_all(); });
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
        std::this_thread::sleep_for(look_interval);
      }
      reports.push_back(io::read_text_file(path, report_limit));
      std::filesystem::remove(path, ignored);
    }
    published = publish(*save.writer, reports, state, options);
  }

  /// Whether `stage` is true, after waiting for it for that long at most.
  bool wait_for(const bool& stage, std::chrono::milliseconds longest) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, longest, [&] { return stage; });
  }
};

BackgroundSave::BackgroundSave(std::shared_ptr<Communicator> world) : world_(std::move(world)) {}
BackgroundSave::~BackgroundSave() = default;

void BackgroundSave::start(const std::string& root, const TrainingState& state,
                           std::span<const PieceGroup> groups, const SaveOptions& options) {
  wait();
  auto flight = std::make_unique<Flight>();
  flight->rank = world_->rank();
  flight->size = world_->size();
  flight->state = state;
  flight->options = options;
  flight->save = begin_save(*world_, root, state.step);
  const std::vector<PieceGroup> named = name_own_pieces(*world_, groups);
  run_together(*world_, [&] { flight->groups = copy_of(groups_to_write(named)); });
  flight->thread = std::thread([work = flight.get()] { work->run(); });
  flight_ = std::move(flight);
}

std::string BackgroundSave::wait() {
  if (!flight_) return "";
  const std::unique_ptr<Flight> flight = std::move(flight_);
  const auto reach = [&](const bool& stage) {
    wait_together(*world_,
                  [&](std::chrono::milliseconds interval) { return flight->wait_for(stage, interval); });
  };
  reach(flight->written);
  // When every rank has written, rank 0's thread finds all reports and cannot wait for ever.
  require_none(*world_, flight->write_problem);
  reach(flight->finished);
  flight->thread.join();
  require_none(*world_, flight->publish_problem);
  return broadcast_text(*world_, flight->published);
}

}  // namespace tessera::dist
