#include "dist/comm/interface/ledger.h"

#include <utility>

namespace tessera::dist {

void Ledger::keep_entries(bool keep) {
  const std::lock_guard lock(mutex_);
  keep_ = keep;
}

void Ledger::enter(LedgerEntry entry) {
  const std::lock_guard lock(mutex_);
  TrafficCount& count = counts_[static_cast<int>(entry.traffic)];
  ++count.calls;
  count.bytes += entry.bytes_sent;
  if (keep_) entries_.push_back(std::move(entry));
}

TrafficCount Ledger::total() const {
  const std::lock_guard lock(mutex_);
  TrafficCount sum;
  for (const TrafficCount& count : counts_) {
    sum.calls += count.calls;
    sum.bytes += count.bytes;
  }
  return sum;
}

TrafficCount Ledger::total(Traffic traffic) const {
  const std::lock_guard lock(mutex_);
  return counts_[static_cast<int>(traffic)];
}

std::vector<LedgerEntry> Ledger::entries() const {
  const std::lock_guard lock(mutex_);
  return entries_;
}

void Ledger::reset() {
  const std::lock_guard lock(mutex_);
  for (TrafficCount& count : counts_) count = {};
  entries_.clear();
}

}  // namespace tessera::dist
