#pragma once

#include <memory>
#include <vector>

#include "dist/comm/interface/communicator.h"
#include "dist/comm/node/group.h"
#include "dist/comm/wait/reduce.h"

namespace tessera::dist::node {

/// A collective between ranks that read each other's memory. Every rank posts a header and the address of its
/// input. Then each copies its shard out of the inputs of the others, or sums it in rank order, and posts
/// that it has finished reading. An all_reduce has two halves: each rank sums its range in place, then copies
/// the ranges of the others. Small inputs travel with the header.
///
/// Where a rank's input is not visible to the others, the call proceeds in chunks: that rank copies each
/// chunk of its input to a staging buffer, once all ranks have read the one before.
class NodeCall final : public ActiveCall {
 public:
  NodeCall(std::shared_ptr<NodeGroup> group, CheckedCall call);

 private:
  bool advance() override;
  bool output_ready() const override { return output_ready_; }
  bool inputs_free() const override;
  bool own_work_done() const override { return finished_; }
  int missing_rank() const override { return group_->world_rank(missing()); }
  bool missing_has_left() const override { return group_->has_left(missing()); }

  /// The other ranks, in order from the one after this rank.
  int peer(int index) const { return (group_->rank() + 1 + index) % group_->size(); }
  int peers() const { return group_->size() - 1; }
  int missing() const;
  Slot& slot_of(int rank) const { return group_->slot(rank, header().sequence); }
  bool has_input() const;

  bool post();
  bool place_input(Slot& slot);
  void compare_headers();
  void choose_chunks();
  int64_t longest_shard() const;
  bool advance_chunks();
  bool stage_chunk();
  void fill_staging_buffer();
  bool chunk_is_there(int rank) const;
  bool all_finished(int64_t chunks);

  // These move the current chunk. They return whether it has been moved.
  bool move_chunk();
  bool compare_counts();
  bool copy_shards();
  bool copy_broadcast();
  bool reduce_shard();
  bool all_reduce();

  /// A range of a shard, in elements. A shard is what one rank reads of an input: of an all_to_all the
  /// elements for that rank; of a call without shards the full input.
  using Range = ElementRange;
  Range chunk_of(int64_t shard_length) const;
  Range reduced_range(int rank) const;
  int64_t shard_length(int from) const;
  const char* source(int rank, int shard) const;
  int64_t shard_offset(int rank, int shard) const;
  void require_count(int from) const;
  void copy_shard(int from);
  void reduce(int shard, Range range, char* output);
  char* output_at(int64_t element) const {
    return static_cast<char*>(call_.output.raw_data()) + element * width_;
  }

  std::shared_ptr<NodeGroup> group_;
  CheckedCall call_;
  uint64_t mark_;
  int64_t width_;          ///< bytes of an element
  int shards_;             ///< of an input
  int64_t staged_length_;  ///< elements of each shard that a staging buffer holds
  std::vector<int64_t> output_counts_, input_counts_;
  std::shared_ptr<void> staging_;
  Source own_source_ = Source::none;
  bool posted_ = false, output_ready_ = false, finished_ = false;
  bool own_range_done_ = false;  ///< of this chunk: this rank's own shard or range
  int64_t chunks_ = 0;           ///< their number; 0: not known yet
  int64_t chunk_ = 0;            ///< the current one
  /// Peers whose header was compared; whose data was read; that have finished reading.
  int compared_peers_ = 0, read_peers_ = 0, finished_peers_ = 0;
};

}  // namespace tessera::dist::node
