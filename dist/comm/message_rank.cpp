#include "dist/comm/message_rank.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "dist/comm/errors.h"

namespace tessera::dist {
namespace {

/// A RankPlace as bytes of one length.
struct PlaceRecord {
  char host[248] = "";
  int64_t pid = 0;
};

RankProgress::Options progress_options(node::RankBlock& block) {
  // No spinning: the message thread needs the processor.
  return {.spin = std::chrono::microseconds(0),
          .publish_waiting = [&block](int rank) { block.waits_for.store(rank, std::memory_order_relaxed); }};
}

}  // namespace

MessageRank::MessageRank(MessageThread& thread, uint64_t launch, const Deadlines& deadlines)
    : thread_(thread),
      launch_(launch),
      deadlines_(deadlines),
      block_(std::make_shared<node::RankBlock>()),
      bell_(block_, &block_->bell),
      places_(static_cast<size_t>(thread.size())),
      watch_(std::make_shared<JobWatch>(thread.rank(), thread.size(), deadlines)),
      progress_(*bell_, block_->operations, progress_options(*block_)) {
  const auto begin = [&] {
    thread_.begin_launch({.number = launch_,
                          .watch = watch_,
                          .bell = bell_,
                          .sign = [block = block_]() -> SignOfLife {
                            return {.operations = block->operations.load(std::memory_order_relaxed),
                                    .waits_for = block->waits_for.load(std::memory_order_relaxed)};
                          },
                          .deadlines = deadlines_});
  };
  progress_.add_failure_check([watch = watch_] { watch->throw_if_failed(); });
  begin();
  gather_places();
  watch_->set_places(places_);
  progress_.set_watch(watch_);
}

MessageRank::~MessageRank() {
  if (!failed_ && !watch_->has_failed()) progress_.settle();
  progress_.take_calls();
  thread_.end_launch();
}

void MessageRank::fail(RunFailure failure, int to_blame, const std::string& why) {
  failed_ = true;
  watch_->fail(failure, to_blame, why);
  const JobWatch::Failure first = watch_->failure();
  thread_.say_farewell(first.kind, first.rank, first.message);
}

void MessageRank::gather_places() {
  PlaceRecord own;
  ::gethostname(own.host, sizeof own.host - 1);
  own.pid = ::getpid();
  std::vector<int> everybody(places_.size());
  for (int r = 0; r < size(); ++r) everybody[static_cast<size_t>(r)] = r;
  const std::string all = all_gather(everybody, std::string(reinterpret_cast<const char*>(&own), sizeof own));
  for (size_t r = 0; r < places_.size(); ++r) {
    PlaceRecord record;
    std::memcpy(&record, all.data() + r * sizeof record, sizeof record);
    places_[r].host = record.host;
    if (places_[r].host == own.host) places_[r].pid = static_cast<pid_t>(record.pid);
  }
}

std::vector<int> MessageRank::local_ranks() const {
  std::vector<int> ranks;
  for (int r = 0; r < size(); ++r)
    if (places_[static_cast<size_t>(r)].host == places_[static_cast<size_t>(rank())].host) ranks.push_back(r);
  return ranks;
}

std::string MessageRank::all_gather(std::span<const int> members, const std::string& bytes) {
  constexpr int64_t own_channel = -1;  // beside the world's collectives
  CallHeader header;
  header.sequence = gathered_++;
  header.kind = CallKind::split;
  header.dtype = u8;
  header.bytes = static_cast<int64_t>(bytes.size());
  const auto exchange = std::make_shared<Exchange>("world",
                                                   FrameKey{.group = world_group(),
                                                            .sequence = header.sequence,
                                                            .channel = own_channel,
                                                            .tag = members.front()},
                                                   header, bell_);
  const Tensor input = Tensor::from<uint8_t>(
      std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()), {header.bytes});
  const Tensor output = Tensor::empty({header.bytes * std::ssize(members)}, u8);
  char* const out = static_cast<char*>(output.raw_data());
  for (size_t i = 0; i < members.size(); ++i) {
    char* const place = out + static_cast<int64_t>(i) * header.bytes;
    if (members[i] == rank())
      std::memcpy(place, bytes.data(), bytes.size());
    else
      exchange->peers.push_back({.rank = members[i],
                                 .send = static_cast<const char*>(input.raw_data()),
                                 .send_bytes = header.bytes,
                                 .receive = place,
                                 .receive_bytes = header.bytes});
  }
  exchange->keep = {input, output};
  thread_.post(exchange);
  const auto deadline = std::chrono::steady_clock::now() + deadlines_.timeout;
  for (;;) {
    const uint32_t seen = bell_->rings();
    if (exchange->over()) return std::string(out, static_cast<size_t>(output.nbytes()));
    watch_->throw_if_failed();
    if (std::chrono::steady_clock::now() > deadline)
      throw RankLostError(text("rank ", exchange->missing(), " did not come to the launch within ",
                               static_cast<double>(deadlines_.timeout.count()) / 1000, " s"),
                          exchange->missing());
    bell_->sleep(seen, std::chrono::milliseconds(50));
  }
}

}  // namespace tessera::dist
