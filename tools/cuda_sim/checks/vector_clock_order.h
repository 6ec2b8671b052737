// The order of operations, by vector clocks over streams and the host.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <shared_mutex>
#include <string>
#include <vector>

#include "tools/cuda_sim/checks/operation_order.h"

namespace tessera::cuda_sim {

/// What has been issued on which stream, and what waited for what. The runtime calls it when the program
/// calls (at issue, not when an operation is carried out), so that the order does not depend on the order of
/// execution.
///
/// All threads of the host count as one, in the order of their calls. Thread-safe.
class VectorClockOrder : public OperationOrder {
 public:
  /// A line of operations that follow each other: a stream, a branch of a graph, the host.
  using Stream = uint32_t;
  static constexpr Stream host = 0;

  /// A place in a stream behind everything issued so far: what an event records. The default one is before
  /// everything.
  struct Moment {
    Stream stream = host;
    uint32_t sequence = 0;
    uint32_t clock = 0;
  };

  VectorClockOrder();

  /// A new stream. Its operations come after what the host has done and waited for, and after nothing else.
  Stream add_stream(std::string name);
  /// An operation of `stream`: after the stream's earlier ones, after what the stream waits for, and after
  /// what the host has waited for. `what`: "kernel fill", "copy to the host".
  Operation issue(Stream stream, std::string what);
  /// An access of the host's own; later operations of all streams come after it.
  Operation host_access(std::string what) { return issue(host, std::move(what)); }

  Moment record(Stream stream);
  /// Behind `operation`, for a graph's edges.
  Moment moment_of(Operation operation) const;
  /// Later operations of `stream` come after `moment`.
  void wait(Stream stream, const Moment& moment);
  /// The host waits for a stream, an event, or everything.
  void host_sync(Stream stream) { wait(host, record(stream)); }
  void host_sync(const Moment& moment) { wait(host, moment); }
  void host_sync_all();
  /// Whether the host has waited for it: whatever is issued from here on comes after it.
  bool host_knows(Operation operation) const;

  bool is_ordered(Operation earlier, Operation later) const override;
  std::string describe(Operation operation) const override;

 private:
  using Clock = std::vector<uint32_t>;  ///< of each stream, the last sequence number that is known
  struct Line {
    std::string name;
    uint32_t issued = 0;
    uint32_t clock = 0;  ///< index into clocks_: what the next operation comes after, other streams only
    uint32_t host_version = 0;  ///< of the host's clock that is in it
  };
  struct Entry {
    Stream stream = host;
    uint32_t sequence = 0, clock = 0, what = 0;
  };

  static uint32_t known(const Clock& clock, Stream stream) {
    return stream < clock.size() ? clock[stream] : 0;
  }
  /// The clock that knows what both know; one of the two where it does already.
  uint32_t join(uint32_t a, uint32_t b);
  uint32_t with(uint32_t clock, Stream stream, uint32_t sequence);
  void take_host(Stream stream);
  void wait_locked(Stream stream, const Moment& moment);
  uint32_t text_index(std::string text);

  mutable std::shared_mutex mutex_;
  std::deque<Clock> clocks_;  ///< consecutive operations share one
  std::vector<Line> streams_;
  std::deque<Entry> entries_;
  std::deque<std::string> texts_;
  std::map<std::string, uint32_t> text_indices_;
  uint32_t host_version_ = 0;
};

}  // namespace tessera::cuda_sim
