#pragma once

#include <memory>

#include "dist/comm/communicator.h"
#include "dist/comm/node_group.h"

namespace tessera::dist::node {

/// A collective between ranks that read each other's memory. Every rank posts a header and where its input
/// lies; then each copies, or sums in rank order, its own part straight out of the inputs of the others, and
/// says when it has read all it needs. An all_reduce has two halves: each rank sums its slice in place, then
/// copies the slices of the others. Small inputs travel with the header.
class NodeCall final : public ActiveCall {
 public:
  NodeCall(std::shared_ptr<NodeGroup> group, CheckedCall call);

 private:
  bool advance() override;
  bool output_ready() const override { return output_ready_; }
  bool inputs_free() const override;
  bool duties_done() const override { return finished_; }
  int missing_rank() const override { return group_->world_rank(missing()); }
  bool missing_has_left() const override { return group_->has_left(missing()); }

  /// The peers one after another, beginning behind this rank.
  int peer(int index) const { return (group_->rank() + 1 + index) % group_->size(); }
  int peers() const { return group_->size() - 1; }
  int missing() const;
  bool has_input() const;
  bool is_small() const { return posted_source_ == Source::in_slot; }

  bool post();
  void compare_headers();
  bool move_data();
  void finish();

  bool take_parts();
  bool reduce_parts();
  bool all_reduce();
  void take_part(int from);
  void reduce(int64_t first, int64_t count, void* output);
  const char* input_of(int rank) const;
  struct Part {
    int64_t first, count;  ///< in elements
  };
  Part slice_of(int rank) const;
  Part part_from(int rank) const;

  std::shared_ptr<NodeGroup> group_;
  CheckedCall call_;
  uint64_t mark_;
  Source posted_source_ = Source::none;
  bool posted_ = false, reduced_ = false, output_ready_ = false, finished_ = false;
  int compared_ = 0, taken_ = 0, departed_ = 0;  ///< peers, in order
  std::vector<int64_t> output_counts_;
};

}  // namespace tessera::dist::node
