#pragma once

#include <memory>
#include <vector>

#include "dist/comm/interface/communicator.h"
#include "dist/comm/node/group.h"

namespace tessera::dist::node {

/// A collective between ranks that read each other's memory. Every rank posts a header and where its input
/// lies; then each copies, or sums in rank order, its own part straight out of the inputs of the others, and
/// says when it has read all it needs. An all_reduce has two halves: each rank sums its slice in place, then
/// copies the slices of the others. Small inputs travel with the header.
///
/// Where a rank's input is not visible to the others, the call goes piece by piece: that rank copies each
/// piece of its input to a stage, once all have read the one before.
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
  Slot& slot_of(int rank) const { return group_->slot(rank, header().sequence); }
  bool has_input() const;

  bool post();
  bool place_input(Slot& slot);
  void compare_headers();
  void choose_pieces();
  int64_t longest_part() const;
  bool advance_pieces();
  bool stage_piece();
  void fill_stage();
  bool is_there(int rank) const;
  bool all_finished(int64_t pieces);

  // The piece that is being moved. Each returns whether it is.
  bool move_piece();
  bool compare_counts();
  bool take_parts();
  bool take_broadcast();
  bool reduce_parts();
  bool all_reduce();

  /// A stretch of a part, in elements.
  struct Stretch {
    int64_t first, count;
  };
  Stretch piece_of(int64_t part_length) const;
  Stretch slice_of(int rank) const;
  int64_t part_length(int from) const;
  const char* source(int rank, int part) const;
  int64_t part_offset(int rank, int part) const;
  void require_count(int from) const;
  void take_part(int from);
  void reduce(int part, Stretch stretch, char* output);
  char* output_at(int64_t element) const {
    return static_cast<char*>(call_.output.raw_data()) + element * width_;
  }

  std::shared_ptr<NodeGroup> group_;
  CheckedCall call_;
  uint64_t mark_;
  int64_t width_;         ///< bytes of an element
  int parts_;             ///< of an input
  int64_t stage_length_;  ///< elements of a part that a stage holds
  std::vector<int64_t> output_counts_, input_counts_;
  std::shared_ptr<void> stage_;
  Source own_source_ = Source::none;
  bool posted_ = false, output_ready_ = false, finished_ = false;
  bool own_done_ = false;  ///< of this piece: this rank's own part or slice
  int64_t pieces_ = 0;     ///< 0: not known yet
  int64_t piece_ = 0;
  int compared_ = 0, taken_ = 0, departed_ = 0;  ///< peers, in order
};

}  // namespace tessera::dist::node
