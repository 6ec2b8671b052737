#include "tools/cuda_sim/runtime/schedule/operation_log.h"

#include <algorithm>
#include <utility>

namespace tessera::cuda_sim {

namespace {

void join_clocks(std::vector<uint32_t>& into, const std::vector<uint32_t>& other) {
  if (into.size() < other.size()) into.resize(other.size());
  for (size_t i = 0; i < other.size(); ++i) into[i] = std::max(into[i], other[i]);
}

uint32_t at(const std::vector<uint32_t>& clock, uint32_t chain) {
  return chain < clock.size() ? clock[chain] : 0;
}

}  // namespace

OperationLog::OperationLog() {
  entries_.emplace_back();  // 0: before the first operation
}

void OperationLog::join(Clock& clock, Operation operation) const {
  if (operation == 0) return;
  const Entry& entry = entries_[operation];
  if (at(clock, entry.chain) >= entry.position) return;  // it is known, and so is all before it
  join_clocks(clock, entry.before);
  if (clock.size() <= entry.chain) clock.resize(entry.chain + 1);
  clock[entry.chain] = std::max(clock[entry.chain], entry.position);
}

Operation OperationLog::add(uint32_t chain, std::string name, std::span<const Operation> after) {
  Entry entry;
  entry.before = host_;
  join(entry.before, chains_[chain].last);
  for (const Operation operation : after) join(entry.before, operation);
  entry.chain = chain;
  entry.position = ++chains_[chain].count;
  entry.name = std::move(name);
  entries_.push_back(std::move(entry));
  const auto number = static_cast<Operation>(entries_.size() - 1);
  chains_[chain].last = number;
  return number;
}

void OperationLog::host_waits_for(Operation operation) {
  join(host_, operation);
}

bool OperationLog::host_has_waited_for(Operation operation) const {
  return operation == 0 || at(host_, entries_[operation].chain) >= entries_[operation].position;
}

uint32_t OperationLog::new_chain(std::string name) {
  if (!free_chains_.empty()) {
    const uint32_t chain = free_chains_.back();
    free_chains_.pop_back();
    chains_[chain].name = std::move(name);
    return chain;
  }
  chains_.push_back({.name = std::move(name)});
  return static_cast<uint32_t>(chains_.size() - 1);
}

void OperationLog::release_chain(uint32_t chain) {
  // A new user would otherwise count as ordered after the old one's operations.
  if (host_has_waited_for(chains_[chain].last)) free_chains_.push_back(chain);
}

bool OperationLog::is_ordered(Operation earlier, Operation later) const {
  if (earlier == 0) return true;
  const Entry& entry = entries_[earlier];
  return at(entries_[later].before, entry.chain) >= entry.position;
}

std::string OperationLog::describe(Operation operation) const {
  if (operation == 0) return "before the first operation";
  const Entry& entry = entries_[operation];
  return entry.name + " on " + chains_[entry.chain].name + " (operation " + std::to_string(operation) + ")";
}

}  // namespace tessera::cuda_sim
