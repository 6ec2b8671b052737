#pragma once  // internal

#include <memory>
#include <vector>

#include "dist/comm/interface/call_plan.h"
#include "dist/comm/interface/communicator.h"
#include "dist/comm/node/group.h"

namespace tessera::dist::node {

/// A collective between ranks that read each other's memory: it executes the plan by reading. Every rank
/// posts a header and the address of its input. Then each copies what the others send to it out of their
/// inputs, or combines it in rank order, and posts that it has finished reading. What is combined in the
/// first of two phases is written in place, where the others read it in the second. Small inputs are posted
/// with the header.
///
/// Where a rank's input is not visible to the others, the call proceeds in chunks: that rank copies each
/// chunk of its input to a staging buffer, once all ranks have read the one before.
class Call final : public ActiveCall {
 public:
  Call(std::shared_ptr<Group> group, CheckedCall call);

 private:
  bool advance() override;
  bool output_ready() const override { return output_ready_; }
  bool inputs_released() const override;
  bool own_work_done() const override { return finished_; }
  int missing_rank() const override { return group_->world_rank(missing()); }
  bool missing_has_exited() const override { return group_->has_exited(missing()); }

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
  int64_t longest_staged_range() const;
  bool advance_chunks();
  void begin_chunk();
  bool stage_chunk();
  void fill_staging_buffer();
  bool all_finished(int64_t chunks);

  // These execute the current chunk, or a phase of it. They return whether it has been executed.
  bool move_chunk();
  bool compare_counts();
  bool place();
  bool combine();

  bool is_there(int rank) const;
  void begin_work();
  void copy_from(int rank);
  void require_count(int from, int64_t sent, int64_t expected) const;

  ElementRange staged_range(int index) const;
  ElementRange chunk_of(const ElementRange& range) const;
  ElementRange in_tensor(const ElementRange& range) const;
  ElementRange sent_by(int rank) const;
  const char* source(int rank, const ElementRange& sent) const;
  char* output_at(int64_t element) const {
    return static_cast<char*>(call_.output.raw_data()) + element * width_;
  }

  std::shared_ptr<Group> group_;
  CheckedCall call_;
  std::vector<int64_t> output_counts_, input_counts_;  ///< of an all_to_all
  CallPlan plan_;                                      ///< of a staged all_reduce: of the current chunk
  uint64_t mark_;
  int64_t width_;              ///< bytes of an element
  int staged_ranges_ = 1;      ///< ranges of the input that are staged beside each other
  int64_t staged_length_ = 0;  ///< elements of each that a staging buffer holds
  std::shared_ptr<void> staging_;
  Source own_source_ = Source::none;
  bool posted_ = false, output_ready_ = false, finished_ = false;
  int64_t chunks_ = 0;       ///< their number; 0: not known yet
  int64_t chunk_ = 0;        ///< the current one
  int64_t chunk_begin_ = 0;  ///< of a staged all_reduce: where the chunk begins
  bool has_begun_ = false;   ///< the chunk: this rank has copied or combined some of it
  int phase_ = 0;            ///< of the chunk
  bool own_placed_ = false;  ///< of the phase: what this rank sends to itself
  /// Counts of peers: header compared; data of the phase read; finished with reading.
  int compared_peers_ = 0, read_peers_ = 0, finished_peers_ = 0;
};

}  // namespace tessera::dist::node
