#pragma once

#include <string>

#include "tensor/profile/span.h"

namespace tessera {

/// Names what runs now (a module's full name) in errors and profiles of this thread, while it lives. A named
/// string is referred to and must outlive it; a temporary (`NamedScope scope("loss")`) is taken over.
class NamedScope {
 public:
  explicit NamedScope(const std::string& name);
  explicit NamedScope(std::string&& name);
  ~NamedScope();
  NamedScope(const NamedScope&) = delete;
  NamedScope& operator=(const NamedScope&) = delete;

 private:
  std::string own_;  // a temporary's
  const std::string* previous_;
  SpanScope span_;
};

/// The innermost NamedScope's name; empty outside all.
const std::string& current_scope();

}  // namespace tessera
