#pragma once

#include <string>

#include "tensor/profile/span.h"

namespace tessera {

/// Names what runs now (a module's full name) in errors and profiles of this thread, while the scope lives. A
/// named string is referred to and must outlive the scope; a temporary (`NamedScope scope("loss")`) is moved.
class NamedScope {
 public:
  /// Opens a `module` span of the name; an empty name is shown as "model" there.
  /// @{
  explicit NamedScope(const std::string& name);
  explicit NamedScope(std::string&& name);
  /// @}
  ~NamedScope();
  NamedScope(const NamedScope&) = delete;
  NamedScope& operator=(const NamedScope&) = delete;

 private:
  std::string own_;  // holds a temporary
  const std::string* previous_;
  SpanScope span_;
};

/// The innermost NamedScope's name; empty outside every scope.
const std::string& current_scope();

}  // namespace tessera
