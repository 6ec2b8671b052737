#pragma once

#include <memory>
#include <span>
#include <vector>

#include "dist/comm/interface/communicator.h"
#include "dist/comm/remote/exchange.h"
#include "dist/comm/remote/rank.h"

namespace tessera::dist {

/// A group as its messages see it.
struct MessageGroup {
  MessageRank* self;
  std::string name;
  uint64_t id;
  int rank;
  std::vector<int> members;  ///< by their ranks in the world
};

/// A call whose bytes travel as messages. The message thread moves them; sums are the rank's own, done when
/// it waits or polls: a reduce_scatter gathers this rank's part of every input and sums them in rank order;
/// an all_reduce does that and then sends the sums around. Of a few bytes each rank gathers all and sums all.
class MessageCall final : public ActiveCall {
 public:
  MessageCall(const MessageGroup& group, CheckedCall call);
  ~MessageCall() override;

 private:
  bool advance() override;
  bool output_ready() const override { return output_ready_; }
  bool inputs_free() const override { return output_ready_ && exchange_->over(); }
  bool duties_done() const override { return inputs_free(); }
  int missing_rank() const override { return exchange_->missing(); }

  struct Part {
    int64_t first, count;  ///< in elements
  };
  Part slice_of(int rank) const;
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

  MessageThread* thread_;
  std::shared_ptr<Bell> bell_;
  std::string name_;
  uint64_t group_;
  int rank_;
  std::vector<int> members_;
  CheckedCall call_;
  std::shared_ptr<Exchange> exchange_;
  Tensor parts_;    ///< of a reduction: what came from each other rank
  Part reduced_{};  ///< of a reduction: what this rank sums
  bool sum_due_ = false, sums_travel_ = false, output_ready_ = false;
};

}  // namespace tessera::dist
