#pragma once

#include <string>

#include "tensor/profile/span.h"

namespace tessera {

/// Names what runs now (a module's full name) in errors and profiles of this thread, while it lives. `name`
/// must outlive it.
class NamedScope {
 public:
  explicit NamedScope(const std::string& name);
  ~NamedScope();
  NamedScope(const NamedScope&) = delete;
  NamedScope& operator=(const NamedScope&) = delete;

 private:
  const std::string* previous_;
  SpanScope span_;
};

/// The innermost NamedScope's name; empty outside all.
const std::string& current_scope();

}  // namespace tessera
