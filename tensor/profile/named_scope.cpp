#include "tensor/profile/named_scope.h"

#include <utility>

namespace tessera {
namespace {
thread_local const std::string* scope_name = nullptr;
}

NamedScope::NamedScope(const std::string& name)
    : previous_(scope_name),
      span_(SpanKind::module, profiling() ? intern(name.empty() ? "model" : name).c_str() : nullptr) {
  scope_name = &name;
}
NamedScope::NamedScope(std::string&& name) : NamedScope(name) {
  own_ = std::move(name);
  scope_name = &own_;
}
NamedScope::~NamedScope() {
  scope_name = previous_;
}

const std::string& current_scope() {
  static const std::string none;
  return scope_name ? *scope_name : none;
}

}  // namespace tessera
