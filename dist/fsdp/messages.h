#pragma once

#include <cstdint>
#include <limits>

namespace tessera::dist {

/// The calls in which units' parameters are gathered and their gradients reduced. No choice here changes a
/// bit of a result: sums have the same order in all of them.
///
/// A message's elements are those of the range that it gathers or reduces, on all ranks together and with
/// padding: what `CallHeader::bytes` counts. It has the same part of each rank's shard, so that a limit
/// counts the elements of W equal parts. A limit below W does not hold one element of each shard: parameters
/// are then gathered by broadcasts and gradients reduced by all_reduce, with messages of any size.
struct MessageOptions {
  /// No limit: a unit is one message for each of its flat arrays.
  static constexpr int64_t unlimited = std::numeric_limits<int64_t>::max();

  int64_t gather_elements = unlimited;  ///< most elements of a message that gathers parameters; 1 or more
  int64_t reduce_elements = unlimited;  ///< most elements of a message that reduces gradients; 1 or more
  /// Most elements that are gathered, or being gathered, ahead of their use; 0: none. A unit that does not
  /// fit is gathered in part, the rest when it is used.
  int64_t prefetch_elements = unlimited;
  /// Strategies that shard the optimizer: false reduces gradients by all_reduce, of which each rank keeps its
  /// shard. Twice the bytes.
  bool reduce_scatter = true;
  /// Strategies that shard the optimizer: false gathers parameters by a broadcast from each rank.
  bool all_gather = true;
  /// False: while backward computes, no message is in flight. Each unit's reduction is waited for before
  /// backward continues, buckets of no_shard are reduced at its end, and it gathers nothing ahead.
  bool overlap = true;

  /// Whether gradients sharded over `ranks` ranks are reduced by all_reduce.
  bool reduces_by_all_reduce(int ranks) const { return !reduce_scatter || reduce_elements < ranks; }
  /// Whether parameters sharded over `ranks` ranks are gathered by broadcasts.
  bool gathers_by_broadcast(int ranks) const { return !all_gather || gather_elements < ranks; }
};

}  // namespace tessera::dist
