#include "tensor/named_scope.h"

namespace tessera {
namespace {
thread_local const std::string* scope_name = nullptr;
}

NamedScope::NamedScope(const std::string& name)
    : previous_(scope_name),
      span_(SpanKind::module, profiling() ? intern(name.empty() ? "model" : name).c_str() : nullptr) {
  scope_name = &name;
}
NamedScope::~NamedScope() {
  scope_name = previous_;
}

const std::string& current_scope() {
  static const std::string none;
  return scope_name ? *scope_name : none;
}

}  // namespace tessera
