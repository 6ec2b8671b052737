// NCCL moves and sums the bytes; a group of the hosts compares the headers of all calls and sends NCCL's ids.
// NCCL's calls have no deadlines: handles never block (channel.h), and waits poll them. NCCL has no tags, and
// messages on one stream could block each other: each sender, receiver and tag has a channel.
#ifdef TESSERA_WITH_NCCL

#include "dist/comm/nccl/communicator.h"

#include <cstring>
#include <exception>
#include <map>
#include <thread>
#include <tuple>

#include "dist/comm/nccl/channel.h"
#include "dist/comm/wait/rank_activity.h"
#include "tensor/cuda/runtime/current_device.h"
#include "tensor/cuda/runtime/stream.h"
#include "tensor/function_ref.h"

namespace tessera::dist::nccl {
namespace {

/// All channels of a rank, in every group: while the rank waits for one call it advances all.
class ChannelList {
 public:
  explicit ChannelList(std::chrono::milliseconds timeout) : timeout_(timeout) {}
  std::chrono::milliseconds timeout() const { return timeout_; }
  void add(const std::shared_ptr<Channel>& channel) { channels_.push_back(channel); }
  void advance() {
    std::erase_if(channels_, [](const auto& channel) { return channel.expired(); });
    for (size_t i = 0; i < channels_.size(); ++i)
      if (const auto channel = channels_[i].lock()) channel->advance();
  }

 private:
  std::chrono::milliseconds timeout_;
  std::vector<std::weak_ptr<Channel>> channels_;
};

/// The channels of one rank in a group: one for the collectives, others for messages.
class Channels {
 public:
  Channels(std::shared_ptr<Communicator> host, std::shared_ptr<ChannelList> all)
      : host_(std::move(host)), all_(std::move(all)) {
    ChannelId id = make_id(host_->rank() == 0);
    id.arrival = host_->broadcast(id.bytes, 0, {.unit = "nccl id"});
    collectives_ = make(host_->size(), host_->rank(), std::move(id));
    require<CommunicationError>(poll_until(deadline(), [&] { return collectives_->is_ready(); }), "group '",
                                host_->name(), "' over NCCL was not connected within ",
                                all_->timeout().count(), " ms");
  }

  /// The channel of a call.
  Channel& of(const CheckedCall& call) {
    if (!is_message(call.header.kind)) return *collectives_;
    const bool sends = call.header.kind == CallKind::send;
    const std::tuple key{sends, call.peer, call.tag};
    auto found = messages_.find(key);
    if (found == messages_.end()) {
      ChannelId id = make_id(sends);
      id.arrival = sends ? host_->send(id.bytes, call.peer, call.tag, {.unit = "nccl id"})
                         : host_->recv(id.bytes, call.peer, call.tag, {.unit = "nccl id"});
      found = messages_.emplace(key, make(2, sends ? 0 : 1, std::move(id))).first;
    }
    return *found->second;
  }

  void poll() {
    host_->poll();
    all_->advance();
  }
  /// Polls until `reached` is true; false where that takes until the `deadline`.
  bool poll_until(Clock::time_point deadline, FunctionRef<bool()> reached) {
    while (!reached()) {
      if (Clock::now() >= deadline) return false;
      std::this_thread::yield();
      poll();
    }
    return true;
  }
  std::chrono::milliseconds timeout() const { return all_->timeout(); }
  /// Of a wait that begins now.
  Clock::time_point deadline() const { return Clock::now() + timeout(); }
  const std::shared_ptr<ChannelList>& all() const { return all_; }

  bool is_aborted() const { return collectives_->is_aborted(); }
  void abort() noexcept {
    collectives_->abort();
    for (const auto& [key, channel] : messages_) channel->abort();
  }
  /// Waits for the calls in flight and closes the channels, within the timeout; aborts what fails.
  void close() noexcept {
    const Clock::time_point end = deadline();
    try {
      poll_until(end, [&] { return is_idle(); });
    } catch (...) {
      return abort();
    }
    collectives_->close(end);
    for (const auto& [key, channel] : messages_) channel->close(end);
  }

 private:
  std::shared_ptr<Channel> make(int size, int rank, ChannelId id) {
    auto channel = std::make_shared<Channel>(size, rank, std::move(id));
    all_->add(channel);
    return channel;
  }
  bool is_idle() const {
    bool idle = collectives_->is_idle();
    for (const auto& [key, channel] : messages_) idle = idle && channel->is_idle();
    return idle;
  }

  std::shared_ptr<Communicator> host_;
  std::shared_ptr<ChannelList> all_;
  std::shared_ptr<Channel> collectives_;
  std::map<std::tuple<bool, int, int>, std::shared_ptr<Channel>> messages_;  ///< by: sends, peer, tag
};

/// A result that is copied to where its shards lie apart; `to` is undefined where they do not.
struct Copied {
  Tensor to, from;
};

class NcclCall final : public PendingCall {
 public:
  /// `operation` is null for a call that has only an agreement (barrier, split).
  NcclCall(std::shared_ptr<Channels> channels, CallHeader header, std::string group,
           std::shared_ptr<Operation> operation, std::shared_ptr<PendingCall> agreement, Copied result)
      : channels_(std::move(channels)),
        header_(std::move(header)),
        group_(std::move(group)),
        operation_(std::move(operation)),
        agreement_(std::move(agreement)),
        result_(std::move(result)) {}

  bool poll() override {
    channels_->poll();
    if (!is_over()) return false;
    if (result_.to.defined()) result_.to.copy_from(result_.from);
    result_ = {};
    return true;
  }
  void wait_output() override { wait(); }
  void wait() override {
    const Clock::time_point deadline = channels_->deadline();
    try {
      if (!poll() && !channels_->poll_until(deadline, [&] { return poll(); })) throw_late();
    } catch (...) {
      channels_->abort();
      throw;
    }
  }
  /// While the headers are compared; NCCL does not say for which rank it waits.
  int missing_rank() const override { return is_agreed() ? -1 : agreement_->missing_rank(); }

 private:
  bool is_agreed() const { return !agreement_ || agreement_->poll(); }
  /// The headers first: after a mismatch the bytes mean nothing.
  bool is_over() const {
    const bool over = is_agreed() && (!operation_ || operation_->is_over);
    require<CommunicationError>(over || !channels_->is_aborted(), header_, ": group '", group_,
                                "' has failed before, or is closed");
    return over;
  }
  [[noreturn]] void throw_late() const {
    const std::string late = text(to_string(header_), " of group '", group_, "' was not over after ",
                                  channels_->timeout().count(), " ms");
    const int rank = missing_rank();
    if (rank < 0) throw CommunicationError(late);
    throw RankLostError(text(late, ": it waits for rank ", rank), rank);
  }

  std::shared_ptr<Channels> channels_;
  CallHeader header_;
  std::string group_;
  std::shared_ptr<Operation> operation_;
  std::shared_ptr<PendingCall> agreement_;  ///< null: nothing to compare
  Copied result_;
};

class NcclCommunicator final : public Communicator, public PublishesActivity {
 public:
  /// `host` sends ids; `headers` is another group of the same ranks, with the same calls as this one.
  NcclCommunicator(std::shared_ptr<Communicator> host, std::shared_ptr<Communicator> headers, Device device,
                   std::shared_ptr<ChannelList> all)
      : Communicator(host->name(), host->rank(), {host->members().begin(), host->members().end()},
                     host->shared_ledger()),
        host_(std::move(host)),
        headers_(std::move(headers)),
        device_(device),
        channels_(std::make_shared<Channels>(host_, std::move(all))) {}

  ~NcclCommunicator() override {
    if (std::uncaught_exceptions() > 0)
      channels_->abort();
    else
      channels_->close();
  }

  Device device() const override { return device_; }
  void poll() override { channels_->poll(); }
  void publish_activity(std::string_view what) override {
    if (auto* host = dynamic_cast<PublishesActivity*>(host_.get())) host->publish_activity(what);
  }

 protected:
  std::shared_ptr<PendingCall> start(Call call) override {
    const CallHeader header = call.header;
    // NCCL takes contiguous memory: shards that lie apart are copied.
    Tensor apart;
    if (call.input.defined() && !call.input.is_contiguous()) call.input = call.input.contiguous();
    if (call.output.defined() && !call.output.is_contiguous()) {
      apart = call.output;
      call.output = Tensor::empty(apart.shape(), apart.dtype(), apart.device());
    }
    const Tensor output = call.output;
    std::shared_ptr<Operation> operation;
    std::shared_ptr<PendingCall> agreement = agree(call);
    if (header.kind != CallKind::split && header.kind != CallKind::barrier) {
      operation = std::make_shared<Operation>(std::move(call));
      operation->computed.record(device_.is_cuda() ? cuda_runtime::current_stream(device_)
                                                   : cudaStreamPerThread);
      channels_->of(operation->call).add(operation);
      channels_->poll();
    }
    return std::make_shared<NcclCall>(channels_, header, name(), std::move(operation), std::move(agreement),
                                      Copied{std::move(apart), output});
  }

  /// Opens a group of the hosts; `join_group` splits the second one off it.
  int64_t open_group(std::span<const int> ranks) override { return open_group_on(*headers_, ranks); }
  std::shared_ptr<Communicator> join_group(const std::string& name, std::span<const int> ranks, int index,
                                           int64_t token) override {
    auto host = join_group_on(*headers_, name, ranks, index, token);
    auto headers = host->split(0, index, name);
    return std::make_shared<NcclCommunicator>(std::move(host), std::move(headers), device_, channels_->all());
  }

 private:
  /// The hosts' work: compares headers; makes the full call for a split, whose values lie in host memory.
  std::shared_ptr<PendingCall> agree(const Call& call) {
    if (size() == 1) {
      if (call.header.kind == CallKind::split && call.output.nbytes() > 0)
        std::memcpy(call.output.raw_data(), call.input.raw_data(), static_cast<size_t>(call.output.nbytes()));
      return nullptr;
    }
    Call compared = call;
    if (call.header.kind != CallKind::split) {
      compared.headers_only = true;
      compared.input = compared.output = Tensor();
    }
    return start_on(*headers_, std::move(compared));
  }

  std::shared_ptr<Communicator> host_, headers_;
  Device device_;
  std::shared_ptr<Channels> channels_;
};

}  // namespace

std::shared_ptr<Communicator> make_communicator(std::shared_ptr<Communicator> host, Device device,
                                                std::chrono::milliseconds timeout) {
  if (device.is_cuda()) cuda_runtime::set_current_device(device);
  auto headers = host->split(0, host->rank(), host->name());
  return std::make_shared<NcclCommunicator>(std::move(host), std::move(headers), device,
                                            std::make_shared<ChannelList>(timeout));
}

}  // namespace tessera::dist::nccl

#endif
