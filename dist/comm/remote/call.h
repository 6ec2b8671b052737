#pragma once

#include <memory>
#include <span>
#include <vector>

#include "dist/comm/interface/communicator.h"
#include "dist/comm/remote/exchange.h"
#include "dist/comm/remote/rank.h"
#include "dist/comm/wait/reduce.h"

namespace tessera::dist {

/// A group of the remote transport, as one of its ranks sees it.
struct RemoteGroup {
  RemoteRank* self;
  std::string name;
  uint64_t id;
  int rank;
  std::vector<int> members;  ///< by their ranks in the world
};

/// A call over the remote transport. The remote thread moves its bytes; the rank's own thread computes the
/// sums when it waits or polls. A reduce_scatter gathers this rank's shard of every input and sums them in
/// rank order. An all_reduce does that with a range per rank, then sends the sums to all; if it is small,
/// each rank gathers all inputs and sums them.
class RemoteCall final : public ActiveCall {
 public:
  RemoteCall(const RemoteGroup& group, CheckedCall call);
  ~RemoteCall() override;

 private:
  bool advance() override;
  bool output_ready() const override { return output_ready_; }
  bool inputs_free() const override { return output_ready_ && exchange_->over(); }
  bool own_work_done() const override { return inputs_free(); }
  int missing_rank() const override { return exchange_->missing(); }

  using Range = ElementRange;
  Range reduced_range(int rank) const;
  bool is_small() const;
  char* output_at(int64_t element) const;
  const char* input_at(int64_t element) const;
  std::shared_ptr<Exchange> make_exchange(int phase) const;
  void copy_own(int64_t to, int64_t from, int64_t count) const;

  void prepare();
  void prepare_headers();
  void prepare_gather();
  void prepare_all_to_all();
  void prepare_broadcast();
  void prepare_message();
  void prepare_reduction();
  void send_sums();
  void add_peer(int rank, const char* send, int64_t send_count, char* receive, int64_t receive_count);
  void combine();

  RemoteThread* thread_;
  std::shared_ptr<WaitWord> event_;
  std::string name_;
  uint64_t group_;
  int rank_;
  std::vector<int> members_;
  CheckedCall call_;
  std::shared_ptr<Exchange> exchange_;
  Tensor received_ranges_;  ///< of a reduction: from each other rank
  Range own_range_{};       ///< of a reduction: what this rank sums
  bool reduces_ = false, sends_sums_ = false, output_ready_ = false;
};

}  // namespace tessera::dist
