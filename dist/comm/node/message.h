#pragma once

#include <memory>

#include "dist/comm/interface/communicator.h"
#include "dist/comm/node/group.h"

namespace tessera::dist::node {

/// A message to another rank of the machine: it lies in the sender's outbox until the receiver has copied it.
class NodeSend final : public ActiveCall {
 public:
  NodeSend(std::shared_ptr<NodeGroup> group, CheckedCall call);

 private:
  bool advance() override;
  bool output_ready() const override { return true; }
  bool inputs_free() const override { return taken_ || (number_ != 0 && source_ == Source::in_slot); }
  bool duties_done() const override { return taken_ || (number_ != 0 && source_ != Source::staged); }
  int missing_rank() const override { return group_->world_rank(call_.peer); }
  bool missing_has_left() const override { return group_->has_left(call_.peer); }
  bool post();
  bool place_input(Message& message);
  void fill_stage();

  std::shared_ptr<NodeGroup> group_;
  CheckedCall call_;
  Source source_ = Source::none;
  std::shared_ptr<void> stage_;
  int place_ = 0;        ///< in the outbox
  uint64_t number_ = 0;  ///< 0: not posted
  int64_t pieces_ = 1;
  int64_t ready_ = 0;  ///< pieces
  bool taken_ = false;
};

/// Looks through the sender's outbox for the oldest message with its tag.
class NodeRecv final : public ActiveCall {
 public:
  NodeRecv(std::shared_ptr<NodeGroup> group, CheckedCall call);

 private:
  bool advance() override;
  bool output_ready() const override { return taken_; }
  bool inputs_free() const override { return true; }
  bool duties_done() const override { return taken_; }
  int missing_rank() const override { return group_->world_rank(call_.peer); }
  bool missing_has_left() const override { return group_->has_left(call_.peer); }
  Message* find();
  bool take_pieces();

  std::shared_ptr<NodeGroup> group_;
  CheckedCall call_;
  Message* message_ = nullptr;  ///< once it is there
  uint64_t number_ = 0;
  int64_t piece_ = 0;
  bool taken_ = false;
};

}  // namespace tessera::dist::node
