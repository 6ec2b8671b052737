#include "tools/cuda_sim/runtime/schedule/operation_log.h"

#include <utility>

namespace tessera::cuda_sim {

Operation OperationLog::add(uint32_t chain, std::string name, std::span<const Operation> after) {
  for (const Operation operation : after)
    if (operation != 0) order_.wait(chain, order_.moment_of(operation));
  return chains_[chain].last = order_.issue(chain, std::move(name));
}

uint32_t OperationLog::new_chain(const std::string& name, ChainKind kind) {
  if (std::vector<uint32_t>& free = free_chains_[kind]; !free.empty()) {
    const uint32_t chain = free.back();
    free.pop_back();
    return chain;
  }
  chains_.push_back({.name = name, .kind = kind});
  return order_.add_stream(name);
}

void OperationLog::release_chain(uint32_t chain) {
  if (host_has_waited_for(chains_[chain].last)) free_chains_[chains_[chain].kind].push_back(chain);
}

}  // namespace tessera::cuda_sim
