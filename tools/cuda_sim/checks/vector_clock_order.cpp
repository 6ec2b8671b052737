#include "tools/cuda_sim/checks/vector_clock_order.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace tessera::cuda_sim {

VectorClockOrder::VectorClockOrder() {
  clocks_.emplace_back();
  streams_.push_back({.name = "the host"});
  entries_.push_back({.what = text_index("the start of the program")});
}

VectorClockOrder::Stream VectorClockOrder::add_stream(std::string name) {
  const std::unique_lock lock(mutex_);
  streams_.push_back({.name = std::move(name)});
  return static_cast<Stream>(streams_.size() - 1);
}

uint32_t VectorClockOrder::text_index(std::string text) {
  const auto [it, is_new] = text_indices_.try_emplace(std::move(text), static_cast<uint32_t>(texts_.size()));
  if (is_new) texts_.push_back(it->first);
  return it->second;
}

uint32_t VectorClockOrder::join(uint32_t a, uint32_t b) {
  if (a == b) return a;
  const Clock &first = clocks_[a], &second = clocks_[b];
  const auto covers = [](const Clock& more, const Clock& less) {
    for (Stream stream = 0; stream < less.size(); ++stream)
      if (known(more, stream) < less[stream]) return false;
    return true;
  };
  if (covers(first, second)) return a;
  if (covers(second, first)) return b;
  Clock both(std::max(first.size(), second.size()));
  for (Stream stream = 0; stream < both.size(); ++stream)
    both[stream] = std::max(known(first, stream), known(second, stream));
  clocks_.push_back(std::move(both));
  return static_cast<uint32_t>(clocks_.size() - 1);
}

uint32_t VectorClockOrder::with(uint32_t clock, Stream stream, uint32_t sequence) {
  if (known(clocks_[clock], stream) >= sequence) return clock;
  Clock more = clocks_[clock];
  if (more.size() <= stream) more.resize(stream + 1);
  more[stream] = sequence;
  clocks_.push_back(std::move(more));
  return static_cast<uint32_t>(clocks_.size() - 1);
}

void VectorClockOrder::take_host(Stream stream) {
  Line& line = streams_[stream];
  if (stream == host || line.host_version == host_version_) return;
  line.host_version = host_version_;
  const Line& from = streams_[host];
  line.clock = join(line.clock, with(from.clock, host, from.issued));
}

Operation VectorClockOrder::issue(Stream stream, std::string what) {
  const std::unique_lock lock(mutex_);
  take_host(stream);
  Line& line = streams_.at(stream);
  entries_.push_back({.stream = stream,
                      .sequence = ++line.issued,
                      .clock = line.clock,
                      .what = text_index(std::move(what))});
  if (stream == host) ++host_version_;
  return static_cast<Operation>(entries_.size() - 1);
}

VectorClockOrder::Moment VectorClockOrder::record(Stream stream) {
  const std::unique_lock lock(mutex_);
  take_host(stream);
  const Line& line = streams_.at(stream);
  return {.stream = stream, .sequence = line.issued, .clock = line.clock};
}

VectorClockOrder::Moment VectorClockOrder::moment_of(Operation operation) const {
  const std::shared_lock lock(mutex_);
  const Entry& entry = entries_.at(operation);
  return {.stream = entry.stream, .sequence = entry.sequence, .clock = entry.clock};
}

void VectorClockOrder::wait_locked(Stream stream, const Moment& moment) {
  Line& line = streams_.at(stream);
  const uint32_t before = line.clock;
  uint32_t after = join(before, moment.clock);
  if (moment.stream != stream) after = with(after, moment.stream, moment.sequence);
  if (after == before) return;
  line.clock = after;
  if (stream == host) ++host_version_;
}

void VectorClockOrder::wait(Stream stream, const Moment& moment) {
  const std::unique_lock lock(mutex_);
  wait_locked(stream, moment);
}

void VectorClockOrder::host_sync_all() {
  const std::unique_lock lock(mutex_);
  for (Stream stream = 1; stream < streams_.size(); ++stream)
    wait_locked(host,
                {.stream = stream, .sequence = streams_[stream].issued, .clock = streams_[stream].clock});
}

bool VectorClockOrder::host_knows(Operation operation) const {
  const std::shared_lock lock(mutex_);
  const Entry& entry = entries_.at(operation);
  return operation == 0 || entry.stream == host ||
         known(clocks_[streams_[host].clock], entry.stream) >= entry.sequence;
}

bool VectorClockOrder::is_ordered(Operation earlier, Operation later) const {
  if (earlier == 0) return true;
  const std::shared_lock lock(mutex_);
  const Entry &first = entries_.at(earlier), &second = entries_.at(later);
  if (first.stream == second.stream) return first.sequence < second.sequence;
  return known(clocks_[second.clock], first.stream) >= first.sequence;
}

std::string VectorClockOrder::describe(Operation operation) const {
  const std::shared_lock lock(mutex_);
  if (operation >= entries_.size()) return "operation " + std::to_string(operation);
  const Entry& entry = entries_[operation];
  const std::string& what = texts_[entry.what];
  if (operation == 0) return what;
  return what + (entry.stream == host ? " by " : " on ") + streams_[entry.stream].name + " (operation " +
         std::to_string(operation) + ")";
}

}  // namespace tessera::cuda_sim
