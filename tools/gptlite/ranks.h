#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "dist/launch/world.h"

namespace tessera::gptlite {

/// This rank among those of a run, and the numbers that they tell one another. A run without ranks is the
/// first of one.
class Ranks {
 public:
  Ranks() = default;
  /// `shares_process`: ranks are threads of one process.
  Ranks(dist::World& world, bool shares_process) : world_(&world), shares_process_(shares_process) {}

  /// Null in a run without ranks.
  dist::World* world() const { return world_; }
  int rank() const { return world_ ? world_->rank() : 0; }
  int size() const { return world_ ? world_->size() : 1; }
  /// Whether this is the one that prints.
  bool is_first() const { return rank() == 0; }
  bool shares_process() const { return shares_process_; }

  /// The numbers of all ranks, as many of each, one rank after another. Every rank calls it.
  std::vector<double> gather(const std::vector<double>& own) const;
  /// The sum of one number per rank, in rank order.
  double sum(double own) const;
  /// The largest of one number per rank.
  double largest(double own) const;
  /// Calls and bytes that this rank has sent so far.
  dist::TrafficCount traffic() const;

  /// Runs `body`, which must not communicate, on every rank. When it throws on some, this throws on all: on
  /// the lowest of these its own exception, on the others PeerFailedError, so that one message tells of it.
  void together(const std::function<void()>& body) const;
  /// The same for a body that may take longer than a rank is waited for, such as a download: it runs in a
  /// thread of its own while the ranks meet now and then, so that none is called stuck.
  void together_for_long(const std::function<void()>& body) const;

 private:
  dist::World* world_ = nullptr;
  bool shares_process_ = false;
};

/// A file of this rank's own, by the name that was given: the name itself for rank 0, for others "run.jsonl"
/// becomes "run.rank3.jsonl". Empty stays empty.
std::string file_of_rank(const std::string& path, int rank);

}  // namespace tessera::gptlite
