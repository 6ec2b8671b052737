#pragma once  // internal

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "dist/comm/interface/call.h"

namespace tessera::dist {

/// One call as it was entered.
struct LedgerEntry {
  CallKind kind = CallKind::barrier;   ///< what the call does
  Traffic traffic = Traffic::control;  ///< its purpose: CallOptions::traffic
  std::string group;                   ///< the communicator's name
  std::string unit;                    ///< CallOptions::unit; "" if none was given
  int64_t bytes = 0;                   ///< of the full tensor, as in CallHeader
  int64_t bytes_sent = 0;              ///< by this rank, by the formulas of dist/comm/README.md
};

/// Calls and the bytes that this rank sent in them.
struct TrafficCount {
  int64_t calls = 0;  ///< number of calls
  int64_t bytes = 0;  ///< sent by this rank in them
};

/// Every collective of one rank, over all its groups, to be compared with the traffic formulas. For a group
/// of W ranks and a full tensor of n bytes, a rank sends (W-1)/W n in an all_gather or a reduce_scatter,
/// twice that in an all_reduce, n in a send; the root n in a broadcast. Thread-safe.
class Ledger {
 public:
  /// Whether entries are kept from now on, beside the sums; off at first.
  void keep_entries(bool keep);
  /// Counts a call, and keeps its entry if `keep_entries` is on.
  void enter(LedgerEntry entry);

  /// Calls and bytes since construction, or since `reset`: of all purposes, or of one.
  /// @{
  TrafficCount total() const;
  TrafficCount total(Traffic traffic) const;
  /// @}
  /// The calls since then for which `keep_entries` was on, in the order in which they were entered.
  std::vector<LedgerEntry> entries() const;
  /// Sets the counts to zero and drops the entries.
  void reset();

 private:
  mutable std::mutex mutex_;
  bool keep_ = false;
  TrafficCount counts_[5];
  std::vector<LedgerEntry> entries_;
};

}  // namespace tessera::dist
