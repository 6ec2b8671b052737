#pragma once  // internal

#include <memory>
#include <vector>

#include "dist/comm/interface/call_plan.h"
#include "dist/comm/interface/communicator.h"
#include "dist/comm/remote/exchange.h"
#include "dist/comm/remote/rank.h"

namespace tessera::dist::remote {

/// A group of the remote transport, as one of its ranks sees it.
struct Group {
  Rank* self;
  std::string name;
  uint64_t id;
  int rank;
  std::vector<int> members;  ///< by their ranks in the world
};

/// A call over the remote transport: it executes the plan by sending and receiving. Each phase is an
/// exchange, in which the remote thread moves the bytes. What is to be combined is received into memory of
/// its own; the rank's thread combines it when it waits or polls.
class Call final : public ActiveCall {
 public:
  Call(const Group& group, CheckedCall call);
  ~Call() override;

 private:
  bool advance() override;
  bool output_ready() const override { return output_ready_; }
  bool inputs_released() const override { return output_ready_ && exchange_->over(); }
  bool own_work_done() const override { return inputs_released(); }
  int missing_rank() const override { return exchange_->missing(); }

  char* output_at(int64_t element) const;
  const char* source_at(int64_t element) const;
  std::shared_ptr<Exchange> make_exchange() const;
  void exchange_headers();
  void begin_phase();
  void allocate_received();
  void place_own();
  void add_peer(int rank, const ElementRange& sent, char* receive, int64_t receive_count);
  void combine();

  Thread* thread_;
  std::shared_ptr<WaitWord> event_;
  std::string name_;
  uint64_t group_;
  int rank_;
  std::vector<int> members_;
  CheckedCall call_;
  CallPlan plan_;
  int phase_ = 0;
  std::shared_ptr<Exchange> exchange_;  ///< of the phase
  Tensor received_ranges_;              ///< of a phase that combines: from each other rank
  bool output_ready_ = false;
};

}  // namespace tessera::dist::remote
