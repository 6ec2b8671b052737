#pragma once  // internal

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>

/// What each rank of a call sends, receives and combines. It is stated here alone; a transport adds how it
/// moves a range from one rank to another.
namespace tessera::dist {

struct CheckedCall;

/// A range of a tensor, in elements.
struct ElementRange {
  int64_t first = 0;  ///< where it begins
  int64_t count = 0;  ///< of elements
  /// Whether both fields are equal.
  bool operator==(const ElementRange&) const = default;
};

/// The ranges of an all_reduce, and chunks, begin at multiples of this number of elements.
inline constexpr int64_t range_alignment = 64;

/// A tensor, cut into a range for each rank, in rank order.
struct RankRanges {
  int64_t elements = 0;                  ///< of the tensor
  int64_t length = 0;                    ///< of a range; those of the last ranks may be shorter, or empty
  int64_t stride = 0;                    ///< from a range to the next, if they lie apart; 0: they do not
  std::span<const int64_t> counts = {};  ///< the lengths one by one, instead (all_to_all)

  /// The range of a rank. One of `counts` is added up from the first on.
  ElementRange of(int rank) const {
    if (!counts.empty())
      return {.first = std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0}),
              .count = counts[static_cast<size_t>(rank)]};
    if (stride > 0) return {.first = rank * stride, .count = length};
    const int64_t first = std::min(rank * length, elements);
    return {.first = first, .count = std::min(length, elements - first)};
  }
};
/// `elements` as an all_reduce of `ranks` ranks cuts them: in aligned ranges.
RankRanges aligned_ranges(int64_t elements, int ranks);

/// A range of a tensor that moves from a sender to a receiver.
enum class MovedRange : uint8_t {
  full,        ///< the full tensor
  of_sender,   ///< the sender's range of it
  of_receiver  ///< the receiver's
};
/// That range of a tensor that is cut into `ranges`.
inline ElementRange moved_range(MovedRange which, const RankRanges& ranges, int sender, int receiver) {
  if (which == MovedRange::full) return {.first = 0, .count = ranges.elements};
  return ranges.of(which == MovedRange::of_sender ? sender : receiver);
}

/// A phase of a call: every rank sends a range to every rank, itself too.
struct CallPhase {
  MovedRange sent = MovedRange::full;      ///< of the sender's input; in a second phase of its output
  MovedRange received = MovedRange::full;  ///< of the receiver's output
  /// The receiver combines what all ranks send to it, in rank order; else each range has its own place.
  bool combines = false;
};

/// A call as one rank executes it: its phases, one after another, and the ranges of its tensors. A small
/// value; ranges are computed when they are requested.
struct CallPlan {
  static constexpr int every_rank = -1;  ///< as `sender` or `receiver`

  int rank = 0;                            ///< the rank that executes it
  std::span<const CallPhase> phases = {};  ///< none: headers alone (barrier)
  RankRanges input = {};                   ///< of this rank
  RankRanges output = {};                  ///< of this rank
  /// The one rank that sends, or receives, where not every rank does. A single sender keeps its values where
  /// they are: it sends nothing to itself.
  /// @{
  int sender = every_rank, receiver = every_rank;
  /// @}

  /// Whether this rank sends anything.
  bool sends() const { return sender == every_rank || sender == rank; }
  /// Whether it sends to `to`, or receives from `from`, be it ranges without elements.
  /// @{
  bool sends_to(int to) const { return has_transfer(rank, to); }
  bool receives_from(int from) const { return has_transfer(from, rank); }
  /// @}
  /// The tensor that ranks send in a phase: the input, then what the phase before has written.
  const RankRanges& source(int phase) const { return phase == 0 ? input : output; }
  /// What this rank sends to `to`, which may be itself, and where it puts what `from` sends to it.
  /// @{
  ElementRange sent(int phase, int to) const {
    if (!sends_to(to)) return {};
    return moved_range(phases[static_cast<size_t>(phase)].sent, source(phase), rank, to);
  }
  ElementRange received(int phase, int from) const {
    if (!receives_from(from)) return {};
    return moved_range(phases[static_cast<size_t>(phase)].received, output, from, rank);
  }
  /// @}

 private:
  bool has_transfer(int from, int to) const {
    if (sender == every_rank) return true;
    return from == sender && (receiver == every_rank ? to != sender : to == receiver);
  }
};

/// The plan of rank `rank` of `ranks`. It depends on the call's header, and on the peer of a message and the
/// counts of an all_to_all; these spans must live as long as the plan. In an all_reduce of at most
/// `small_bytes` each rank combines all elements; in a larger one its own range, which it then sends to all.
CallPlan plan_of(const CheckedCall& call, int rank, int ranks, int64_t small_bytes = 0);

}  // namespace tessera::dist
