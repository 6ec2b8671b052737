#pragma once  // internal

#include <memory>

#include "dist/comm/interface/communicator.h"
#include "dist/comm/node/group.h"

namespace tessera::dist::node {

/// A message to a rank of the machine: it stays in the sender's send queue until the receiver has copied it.
class Send final : public ActiveCall {
 public:
  Send(std::shared_ptr<Group> group, CheckedCall call);

 private:
  bool advance() override;
  bool output_ready() const override { return true; }
  bool inputs_released() const override { return taken_ || (number_ != 0 && source_ == Source::in_slot); }
  bool own_work_done() const override { return taken_ || (number_ != 0 && source_ != Source::staged); }
  int missing_rank() const override { return group_->world_rank(call_.peer); }
  bool missing_has_exited() const override { return group_->has_exited(call_.peer); }
  bool post();
  bool place_input(Message& message);
  void fill_staging_buffer();

  std::shared_ptr<Group> group_;
  CheckedCall call_;
  Source source_ = Source::none;
  std::shared_ptr<void> staging_;
  int queue_index_ = 0;  ///< in the send queue
  uint64_t number_ = 0;  ///< 0: not posted
  int64_t chunks_ = 1;
  int64_t ready_ = 0;  ///< chunks that the receiver can read
  bool taken_ = false;
};

/// Receives the oldest message with its tag from the sender's send queue.
class Recv final : public ActiveCall {
 public:
  Recv(std::shared_ptr<Group> group, CheckedCall call);

 private:
  bool advance() override;
  bool output_ready() const override { return taken_; }
  bool inputs_released() const override { return true; }
  bool own_work_done() const override { return taken_; }
  int missing_rank() const override { return group_->world_rank(call_.peer); }
  bool missing_has_exited() const override { return group_->has_exited(call_.peer); }
  Message* find();
  Message* search();
  bool take_chunks();

  std::shared_ptr<Group> group_;
  CheckedCall call_;
  Message* message_ = nullptr;  ///< once it is there
  uint64_t number_ = 0;
  int64_t chunk_ = 0;
  bool taken_ = false;
};

}  // namespace tessera::dist::node
