#include "dist/comm/interface/fault_injection.h"

#include <utility>

namespace tessera::dist {

CommHookScope::CommHookScope(CommHook hook) : hook_(std::move(hook)), previous_(detail::comm_hook) {
  detail::comm_hook = &hook_;
}

CommHookScope::~CommHookScope() {
  detail::comm_hook = previous_;
}

}  // namespace tessera::dist
