#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "dist/comm/interface/call.h"
#include "dist/comm/interface/errors.h"
#include "dist/comm/interface/ledger.h"
#include "dist/comm/interface/work.h"
#include "tensor/tensor.h"

namespace tessera::dist {

/// A call whose arguments were checked: the input of a transport.
struct CheckedCall {
  CallHeader header;  ///< what all ranks of the call must agree on
  /// Undefined where the kind has none. In an all_reduce and a broadcast both are one tensor.
  /// @{
  Tensor output, input;
  /// @}
  /// Of an all_to_all: elements by rank. Valid only during `start`.
  /// @{
  std::span<const int64_t> output_counts, input_counts;
  /// @}
  /// Of a send or recv.
  /// @{
  int peer = 0, tag = 0;
  /// @}
  /// Another transport moves the bytes: ranks only compare headers. There are no tensors then.
  bool headers_only = false;
};

/// A group of ranks that call collectives together, as one of them sees it. Every rank of the group makes the
/// same calls in the same order. Each call carries a header that is compared before data moves, so that a
/// rank that takes another branch gets an error naming both sides. Calls return at once; results are there
/// after `Work::wait`. Tensors are contiguous (two may have rows that lie apart, see below) and on the
/// group's device; they must keep their bytes until the call is waited for. Writing into them does not raise
/// their version; the caller does that where it is needed. A communicator belongs to one rank; its members,
/// the destructor too, are called by that rank's thread alone.
///
/// The transport below moves bytes; sums are computed here, in rank order, so that results depend on no
/// timing and on no library. NCCL is the exception: it sums by itself, in an order that is fixed for a
/// topology, and moves bytes while headers are compared. Throws ShapeError, DTypeError or DeviceError, before
/// anything is sent, for tensors that do not fit a call.
class Communicator {
 public:
  virtual ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// This rank's index in the group, and the number of ranks in it.
  /// @{
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  /// @}
  /// "world", "shard", ...
  const std::string& name() const { return name_; }
  /// The members by their ranks in the world.
  std::span<const int> members() const { return members_; }

  /// Where this rank's tensors are.
  virtual Device device() const { return cpu(); }

  /// Every rank gets the reduction over all, in place.
  Work all_reduce(const Tensor& tensor, Reduction reduction, const CallOptions& options = {});
  /// `output` gets the `input`s of all ranks one after another, in rank order; all of one size. `input` may
  /// be this rank's own shard of `output`: then it is not copied. `output` may be a matrix with a row for
  /// each rank with rows that lie apart (over NCCL by a copy): a part of every shard of a larger tensor.
  Work all_gather(const Tensor& output, const Tensor& input, const CallOptions& options = {});
  /// `input` is cut into as many equal shards as there are ranks; `output` gets the reduction of this rank's
  /// shard over all ranks. It may be this rank's own shard of `input`, of which the shards may lie apart as
  /// those of an all_gather's output.
  Work reduce_scatter(const Tensor& output, const Tensor& input, Reduction reduction,
                      const CallOptions& options = {});
  /// Every rank gets the root's values.
  Work broadcast(const Tensor& tensor, int root, const CallOptions& options = {});
  /// Range i of `input` goes to rank i; range j of `output` comes from rank j. All ranges have one length.
  Work all_to_all(const Tensor& output, const Tensor& input, const CallOptions& options = {});
  /// The same with `input_counts[i]` elements for rank i and `output_counts[j]` from rank j.
  Work all_to_all(const Tensor& output, std::span<const int64_t> output_counts, const Tensor& input,
                  std::span<const int64_t> input_counts, const CallOptions& options = {});
  /// Messages between two ranks, matched in order by (from, to, tag). Size, dtype and unit must agree.
  /// @{
  Work send(const Tensor& tensor, int to, int tag = 0, const CallOptions& options = {});
  Work recv(const Tensor& tensor, int from, int tag = 0, const CallOptions& options = {});
  /// @}
  /// The returned work is over when every rank has called it.
  Work barrier();

  /// Makes groups of the ranks with the same `color`, ordered by (key, rank). Every rank of this group calls
  /// it and waits for all. Null for a negative color.
  std::shared_ptr<Communicator> split(int color, int key, const std::string& name);

  /// An uninitialised tensor in memory that the transport reads without a copy (where it has such memory), in
  /// the current category of this thread's account. Its storage can be released and refilled; with `initial`
  /// = released it takes no bytes before its first refill.
  Tensor empty(const Shape& shape, DType dtype, Storage::Initial initial = Storage::Initial::filled);

  /// Advances all calls of this rank, in every group, as far as possible without waiting. Cheap enough for
  /// every hook. It also raises the rank's count of operations: a rank that works for long while others wait
  /// for it (reading, preparing data) does not count as stuck as long as it polls.
  virtual void poll() = 0;

  /// What this rank has sent, in all groups of its world.
  /// @{
  Ledger& ledger() const { return *ledger_; }
  const std::shared_ptr<Ledger>& shared_ledger() const { return ledger_; }
  /// @}

 protected:
  /// What a transport starts.
  using Call = CheckedCall;
  /// `members` are the group's ranks in the world, and `rank` is this rank's index among them. `ledger` is
  /// the one of all the rank's groups.
  Communicator(std::string name, int rank, std::vector<int> members, std::shared_ptr<Ledger> ledger);

  /// Starts the call. Calls of one group are started in order of their sequence numbers.
  virtual std::shared_ptr<PendingCall> start(Call call) = 0;
  /// The storage of a tensor from `empty`.
  virtual intrusive_ptr<Storage> make_storage(int64_t bytes, Storage::Initial initial) {
    return Storage::allocate(bytes, device(), initial);
  }
  /// Prepares a group of these ranks of this group. Called on the first of them; all get the returned token.
  virtual int64_t open_group(std::span<const int> ranks) = 0;
  /// Joins that group as its rank `index`. Called on each of `ranks`.
  virtual std::shared_ptr<Communicator> join_group(const std::string& name, std::span<const int> ranks,
                                                   int index, int64_t token) = 0;

  /// These three call another group's, for a transport that is built on it. `call` has its sequence number.
  /// @{
  static std::shared_ptr<PendingCall> start_on(Communicator& group, Call call) {
    return group.start(std::move(call));
  }
  static int64_t open_group_on(Communicator& group, std::span<const int> ranks) {
    return group.open_group(ranks);
  }
  static std::shared_ptr<Communicator> join_group_on(Communicator& group, const std::string& name,
                                                     std::span<const int> ranks, int index, int64_t token) {
    return group.join_group(name, ranks, index, token);
  }
  /// @}

 private:
  Work begin(Call call, const CallOptions& options, int64_t bytes_sent);
  Work message(CallKind kind, const Tensor& tensor, int peer, int tag, const CallOptions& options);
  void gather_integers(std::span<const int64_t> own, std::span<int64_t> all);

  std::string name_;
  int rank_;
  std::vector<int> members_;
  std::shared_ptr<Ledger> ledger_;
  uint64_t next_sequence_ = 0;
  std::map<std::tuple<CallKind, int, int>, uint64_t> next_message_;  ///< by kind, peer and tag
};

}  // namespace tessera::dist
