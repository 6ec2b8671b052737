// The operations of all devices and what each comes after: what the race checks ask.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/cuda_sim/checks/operation_order.h"

namespace tessera::cuda_sim {

/// Happens-before between operations, by vector clocks. A chain is a sequence of operations in which each one
/// comes after the one before: a stream, or a branch of a graph. The host is one more participant: an
/// operation comes after all that the host had waited for when it was issued. All host threads share one
/// clock, since what passes between them is not seen: this can hide a race, and never invents one.
class OperationLog : public OperationOrder {
 public:
  OperationLog();
  /// Adds an operation to `chain`, after the operations `after` and after the chain's last one.
  Operation add(uint32_t chain, std::string name, std::span<const Operation> after);
  /// The host knows that `operation` has ended.
  void host_waits_for(Operation operation);
  /// Whether the host has waited for it: nothing issued from here on can race with it.
  bool host_has_waited_for(Operation operation) const;
  /// A chain that no other has; `reuse_chain` gives it back once the host has waited for its last operation.
  uint32_t new_chain(std::string name);
  void release_chain(uint32_t chain);
  Operation last_of(uint32_t chain) const { return chains_[chain].last; }
  const std::string& name(Operation operation) const { return entries_[operation].name; }
  const std::string& chain_name(uint32_t chain) const { return chains_[chain].name; }

  bool is_ordered(Operation earlier, Operation later) const override;
  std::string describe(Operation operation) const override;

 private:
  using Clock = std::vector<uint32_t>;  ///< of each chain, how many of its operations have ended
  struct Entry {
    uint32_t chain = 0, position = 0;  ///< the first operation of a chain has position 1
    std::string name = {};
    Clock before;  ///< what it comes after
  };
  struct Chain {
    std::string name = {};
    Operation last = 0;
    uint32_t count = 0;
  };
  void join(Clock& clock, Operation operation) const;

  std::vector<Entry> entries_;
  std::vector<Chain> chains_;
  std::vector<uint32_t> free_chains_;
  Clock host_;
};

}  // namespace tessera::cuda_sim
