// The operations of all devices and what each comes after: what the race checks ask.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tools/cuda_sim/checks/vector_clock_order.h"

namespace tessera::cuda_sim {

/// Operations on chains. A chain is a sequence of operations in which each one comes after the one before: a
/// stream, or a branch of a graph. The host is one more participant: an operation comes after all that the
/// host had waited for when it was issued. All host threads count as one, since what passes between them is
/// not seen: this can hide a race, and never invents one.
class OperationLog : public OperationOrder {
 public:
  /// Adds an operation to `chain`, after the operations `after` and after the chain's last one.
  Operation add(uint32_t chain, std::string name, std::span<const Operation> after);
  /// The host knows that `operation` has ended.
  void host_waits_for(Operation operation) { order_.host_sync(order_.moment_of(operation)); }
  /// Whether the host has waited for it: nothing issued from here on can race with it.
  bool host_has_waited_for(Operation operation) const { return order_.host_knows(operation); }
  /// A chain that nothing else uses. It may be one of its kind that was released, and has that one's name
  /// then.
  enum class ChainKind : uint8_t { stream, branch };
  uint32_t new_chain(const std::string& name, ChainKind kind = ChainKind::stream);
  /// The number that the next chain has, unless a released one is used again.
  uint32_t next_chain() const { return static_cast<uint32_t>(chains_.size()); }
  /// Gives a chain back once the host has waited for its last operation: else a new user would count as
  /// ordered after the old one's operations.
  void release_chain(uint32_t chain);
  Operation last_of(uint32_t chain) const { return chains_[chain].last; }
  const std::string& chain_name(uint32_t chain) const { return chains_[chain].name; }

  bool is_ordered(Operation earlier, Operation later) const override {
    return order_.is_ordered(earlier, later);
  }
  std::string describe(Operation operation) const override { return order_.describe(operation); }

 private:
  struct Chain {
    std::string name = {};
    ChainKind kind = ChainKind::stream;
    Operation last = 0;
  };
  VectorClockOrder order_;
  std::vector<Chain> chains_{{.name = "the host"}};  ///< numbered as the order's streams
  std::map<ChainKind, std::vector<uint32_t>> free_chains_;
};

}  // namespace tessera::cuda_sim
