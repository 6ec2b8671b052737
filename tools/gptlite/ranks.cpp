#include "tools/gptlite/ranks.h"

#include <algorithm>
#include <filesystem>
#include <future>
#include <limits>

#include "dist/checkpoint/rank_agreement.h"
#include "tensor/memory/account.h"

namespace tessera::gptlite {

std::vector<double> Ranks::gather(const std::vector<double>& own) const {
  if (!world_) return own;
  const CategoryScope scope(MemoryCategory::communication);
  const auto n = static_cast<int64_t>(own.size());
  const Tensor all = Tensor::empty({size() * n}, f64), shard = all.narrow(0, rank() * n, n);
  std::copy(own.begin(), own.end(), shard.data<double>());
  world_->communicator().all_gather(all, shard).wait();
  const double* values = all.data<double>();
  return {values, values + all.numel()};
}

double Ranks::sum(double own) const {
  double total = 0;
  for (const double value : gather({own})) total += value;
  return total;
}

double Ranks::largest(double own) const {
  const std::vector<double> all = gather({own});
  return *std::max_element(all.begin(), all.end());
}

dist::TrafficCount Ranks::traffic() const {
  return world_ ? world_->communicator().ledger().total() : dist::TrafficCount();
}

void Ranks::run_on_all(const std::function<void()>& body) const {
  std::exception_ptr error;
  try {
    body();
  } catch (...) {
    error = std::current_exception();
  }
  if (!world_) {
    if (error) std::rethrow_exception(error);
    return;
  }
  constexpr double no_rank = std::numeric_limits<double>::infinity();
  const double first_failed = -largest(-(error ? rank() : no_rank));
  if (first_failed == no_rank) return;
  if (first_failed == rank()) std::rethrow_exception(error);
  world_->communicator().barrier().wait();  // throws PeerFailedError: that rank never reaches it
}

void Ranks::run_long_together(const std::function<void()>& body) const {
  if (!world_) return body();
  std::future<void> work = dist::run_long(world_->communicator(), body);
  run_on_all([&] { work.get(); });
}

std::string file_of_rank(const std::string& path, int rank) {
  if (path.empty() || rank == 0) return path;
  std::filesystem::path file(path);
  const std::string extension = file.extension().string();
  return file.replace_extension(text("rank", rank) + extension).string();
}

}  // namespace tessera::gptlite
