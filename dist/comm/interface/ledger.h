#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "dist/comm/interface/call.h"

namespace tessera::dist {

/// One call as it was entered.
struct LedgerEntry {
  CallKind kind = CallKind::barrier;
  Traffic traffic = Traffic::control;
  std::string group;  ///< the communicator's name
  std::string unit;
  int64_t bytes = 0;       ///< of the full tensor, as in CallHeader
  int64_t bytes_sent = 0;  ///< by this rank, by the formulas of dist/comm/README.md
};

/// Calls and the bytes that this rank sent in them.
struct TrafficCount {
  int64_t calls = 0;
  int64_t bytes = 0;
};

/// Every collective of one rank, over all its groups, to be compared with the traffic formulas. For a group
/// of W ranks and a full tensor of n bytes, a rank sends (W-1)/W n in an all_gather or a reduce_scatter,
/// twice that in an all_reduce, n in a send; the root n in a broadcast. Thread-safe.
class Ledger {
 public:
  /// Keeps the entries too, beside the sums; off at first.
  void keep_entries(bool keep);
  void enter(LedgerEntry entry);

  /// Since construction, or since `reset`.
  TrafficCount total() const;
  TrafficCount total(Traffic traffic) const;
  std::vector<LedgerEntry> entries() const;
  void reset();

 private:
  mutable std::mutex mutex_;
  bool keep_ = false;
  TrafficCount counts_[5];
  std::vector<LedgerEntry> entries_;
};

}  // namespace tessera::dist
