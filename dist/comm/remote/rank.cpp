#include "dist/comm/remote/rank.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <exception>

#include "dist/comm/interface/errors.h"

namespace tessera::dist::remote {
namespace {

/// An all_gather before there are communicators, as a call in flight.
class GatherCall final : public ActiveCall {
 public:
  GatherCall(RankProgress& progress, std::shared_ptr<Exchange> exchange)
      : ActiveCall(progress, exchange->header), exchange_(std::move(exchange)) {}

 private:
  bool advance() override { return exchange_->over(); }
  bool output_ready() const override { return exchange_->over(); }
  bool inputs_released() const override { return true; }
  bool own_work_done() const override { return exchange_->over(); }
  int missing_rank() const override { return exchange_->missing(); }

  std::shared_ptr<Exchange> exchange_;
};

/// The watch of such a call. Ranks that have not reached the launch yet may be working: they have until the
/// deadline.
class LaunchWatch final : public PeerWatch {
 public:
  explicit LaunchWatch(std::chrono::milliseconds timeout)
      : timeout_(timeout), deadline_(std::chrono::steady_clock::now() + timeout) {}
  void check(int rank, const CallHeader&) override {
    if (std::chrono::steady_clock::now() > deadline_)
      throw RankLostError(text("rank ", rank, " did not reach the launch within ", seconds_text(timeout_)),
                          rank);
  }

 private:
  std::chrono::milliseconds timeout_;
  std::chrono::steady_clock::time_point deadline_;
};

/// A RankPlace as bytes of one length.
struct PlaceRecord {
  char host[248] = "";
  ProcessPlace process = this_process();
  cpu_set_t cores;  ///< that it may run on

  PlaceRecord() {
    ::gethostname(host, sizeof host - 1);
    CPU_ZERO(&cores);
    // With more cores than the set can hold it stays empty.
    ::sched_getaffinity(0, sizeof cores, &cores);
  }
  bool shares_cores_with(const PlaceRecord& other) const {
    cpu_set_t both;
    CPU_AND(&both, &cores, &other.cores);
    return process.shares_kernel_with(other.process) && (CPU_COUNT(&both) > 0 || CPU_COUNT(&cores) == 0);
  }
};

}  // namespace

Rank::Rank(Thread& thread, uint64_t launch, const Deadlines& deadlines, Transport transport)
    : thread_(thread),
      launch_(launch),
      deadlines_(deadlines),
      watch_(std::make_shared<JobWatch>(thread.rank(), thread.size(), deadlines)) {
  make_block(transport);
  begin();
  // Without shared memory the remote thread needs the processor: no spinning.
  progress_ = node::make_progress(*block_, std::chrono::microseconds(0));
  progress_->add_failure_check([watch = watch_] { watch->throw_if_failed(); });
  try {
    watch_->set_places(gather_places());
    join_machine(transport);
  } catch (...) {
    thread_.end_launch(launch_);
    throw;
  }
  if (shared_) progress_->set_spin(node::spin_among(ranks_on_cores_));
  if (!shared_) return;
  node_ = std::make_unique<node::Rank>(shared_, local_index_, *progress_);
  watch_->set_activity_source([shared = std::weak_ptr(shared_)](int rank) -> std::optional<ActivityText> {
    const auto memory = shared.lock();
    const node::RankBlock* block = memory ? memory->block_of_world_rank(rank) : nullptr;
    return block ? std::optional(block->activity.get()) : std::nullopt;
  });
}

Rank::~Rank() {
  if (!failed_ && !watch_->has_failed()) progress_->complete_calls();
  std::vector<std::shared_ptr<void>> kept = progress_->take_calls();
  if (shared_) shared_->keep(std::move(kept));
  node_.reset();
  thread_.end_launch(launch_);
}

void Rank::make_block(Transport transport) {
  if (transport != Transport::remote) {
    try {
      arena_ = SharedArena::create();
      block_ = std::shared_ptr<node::RankBlock>(arena_, &arena_->block());
    } catch (const OutOfMemoryError& error) {
      no_shared_memory_reason_ = error.what();
    }
  }
  if (!block_) block_ = std::make_shared<node::RankBlock>();
  event_ = std::shared_ptr<WaitWord>(block_, &block_->event);
}

void Rank::begin() {
  const auto report = [block = block_] { return block->report(); };
  thread_.begin_launch(
      {.number = launch_, .watch = watch_, .event = event_, .report = report, .deadlines = deadlines_});
}

std::vector<RankPlace> Rank::gather_places() {
  const PlaceRecord own;
  RankBootstrap world(*this, node::rank_indices(size()));
  const std::vector<PlaceRecord> records = gather_records(world, own);
  std::vector<RankPlace> places;
  for (int r = 0; r < size(); ++r) {
    const PlaceRecord& record = records[static_cast<size_t>(r)];
    places.push_back({.host = record.host, .process = record.process});
    if (r == rank()) local_index_ = static_cast<int>(local_ranks_.size());
    if (own.process.shares_pids_with(record.process)) local_ranks_.push_back(r);
    if (own.shares_cores_with(record)) ++ranks_on_cores_;
  }
  return places;
}

void Rank::join_machine(Transport transport) {
  if (transport == Transport::remote || local_ranks_.size() == 1) return;
  RankBootstrap bootstrap(*this, local_ranks_);
  JoinedProcesses joined = join_processes(arena_, bootstrap, local_ranks_);
  shared_ = std::move(joined.shared);
  if (!shared_ && no_shared_memory_reason_.empty()) no_shared_memory_reason_ = joined.no_shared_memory_reason;
  require<ConfigError>(
      shared_ || transport == Transport::automatic,
      "TESSERA_TRANSPORT: expected shared memory, which these ranks do not have: ", no_shared_memory_reason_);
}

void Rank::fail(std::exception_ptr reason) {
  failed_ = true;
  try {
    if (shared_) shared_->throw_if_failed();
  } catch (...) {
    reason = std::current_exception();  // a rank of this machine failed before
  }
  RunFailure failure = failure_of(reason, rank());
  if (failure.rank < 0) return;
  watch_->fail(failure);
  failure = watch_->failure();
  if (shared_) {
    // The remote threads of the others are not broken.
    const bool is_broken = failure.kind == RunFailure::Kind::broken;
    shared_->fail({.kind = is_broken ? RunFailure::Kind::exception : failure.kind,
                   .rank = failure.rank,
                   .message = failure.message});
  }
  thread_.send_abort_message(failure);
}

std::string Rank::all_gather(std::span<const int> members, const std::string& bytes) {
  const Tensor output = Tensor::empty({std::ssize(bytes) * std::ssize(members)}, u8);
  const auto exchange = make_exchange(members, bytes, output);
  thread_.post(exchange);
  const auto call = std::make_shared<GatherCall>(*progress_, exchange);
  progress_->set_watch(std::make_shared<LaunchWatch>(deadlines_.timeout));
  progress_->add(call);
  call->wait();
  progress_->set_watch(watch_);
  return {static_cast<const char*>(output.raw_data()), static_cast<size_t>(output.nbytes())};
}

/// The exchange of an all_gather of `bytes` into `output`.
std::shared_ptr<Exchange> Rank::make_exchange(std::span<const int> members, const std::string& bytes,
                                              const Tensor& output) {
  constexpr int64_t own_channel = -1;  // distinct from those of the world's collectives
  const CallHeader header{
      .sequence = gathered_++, .bytes = std::ssize(bytes), .kind = CallKind::split, .dtype = u8};
  const FrameKey key{
      .group = world_group(), .sequence = header.sequence, .channel = own_channel, .tag = members.front()};
  const auto exchange = std::make_shared<Exchange>("world", key, header, event_);
  const Tensor input = Tensor::from<uint8_t>(
      std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()), {header.bytes});
  char* place = static_cast<char*>(output.raw_data());
  for (const int member : members) {
    if (member == rank())
      std::copy(bytes.begin(), bytes.end(), place);
    else
      exchange->peers.push_back({.rank = member,
                                 .send = static_cast<const char*>(input.raw_data()),
                                 .send_bytes = header.bytes,
                                 .receive = place,
                                 .receive_bytes = header.bytes});
    place += header.bytes;
  }
  exchange->keep = {input, output};
  return exchange;
}

}  // namespace tessera::dist::remote
