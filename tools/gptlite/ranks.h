#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "dist/launch/world.h"

namespace tessera::gptlite {

/// This rank among those of a run, and what they exchange. A run without ranks is rank 0 of 1.
class Ranks {
 public:
  Ranks() = default;
  /// `shares_process`: ranks are threads of one process.
  Ranks(dist::World& world, bool shares_process) : world_(&world), shares_process_(shares_process) {}

  /// Null in a run without ranks.
  dist::World* world() const { return world_; }
  int rank() const { return world_ ? world_->rank() : 0; }
  int size() const { return world_ ? world_->size() : 1; }
  /// Whether this is rank 0, which prints.
  bool is_first() const { return rank() == 0; }
  bool shares_process() const { return shares_process_; }

  /// The values of all ranks, in rank order, the same number of each. Every rank calls it.
  std::vector<double> gather(const std::vector<double>& own) const;
  /// The sum of one value per rank, in rank order.
  double sum(double own) const;
  /// The largest of one value per rank.
  double largest(double own) const;
  /// Calls and bytes that this rank has sent so far.
  dist::TrafficCount traffic() const;

  /// Runs `body`, which must not communicate, on every rank. Where it throws on any, this throws on all: on
  /// the lowest of the ranks that failed its own exception, on the others PeerFailedError: one message
  /// reports it.
  void run_on_all(const std::function<void()>& body) const;
  /// The same for a body that may take longer than the timeout, such as a download: it runs in a thread of
  /// its own, and the ranks' collectives at intervals keep any rank from counting as lost.
  void run_long_together(const std::function<void()>& body) const;

 private:
  dist::World* world_ = nullptr;
  bool shares_process_ = false;
};

/// The name of this rank's file: for rank 0 `path` itself, for rank 3 "run.rank3.jsonl" where `path` is
/// "run.jsonl". Empty stays empty.
std::string file_of_rank(const std::string& path, int rank);

}  // namespace tessera::gptlite
