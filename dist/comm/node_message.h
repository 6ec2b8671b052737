#pragma once

#include <memory>

#include "dist/comm/communicator.h"
#include "dist/comm/node_group.h"

namespace tessera::dist::node {

/// A message to another rank of the machine: it lies in the sender's outbox until the receiver has copied it.
class NodeSend final : public ActiveCall {
 public:
  NodeSend(std::shared_ptr<NodeGroup> group, CheckedCall call);

 private:
  bool advance() override;
  bool output_ready() const override { return true; }
  bool inputs_free() const override { return taken_ || (number_ != 0 && small_); }
  bool duties_done() const override { return number_ != 0; }
  int missing_rank() const override { return group_->world_rank(call_.peer); }
  bool missing_has_left() const override { return group_->has_left(call_.peer); }
  bool post();

  std::shared_ptr<NodeGroup> group_;
  CheckedCall call_;
  int place_ = 0;        ///< in the outbox
  uint64_t number_ = 0;  ///< 0: not posted
  bool small_, taken_ = false;
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

  std::shared_ptr<NodeGroup> group_;
  CheckedCall call_;
  uint64_t number_ = 0;
  bool taken_ = false;
};

}  // namespace tessera::dist::node
