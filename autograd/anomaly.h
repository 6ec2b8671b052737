#pragma once

#include <string>

namespace tessera {

/// While it lives, every recorded operation of this thread and every gradient is searched for NaN, and the
/// first one throws NonFiniteError naming the operation, the module it ran in and the element. Slow; for
/// finding bugs.
class AnomalyMode {
 public:
  AnomalyMode();
  ~AnomalyMode();
  AnomalyMode(const AnomalyMode&) = delete;
  AnomalyMode& operator=(const AnomalyMode&) = delete;

 private:
  bool previous_;
};

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
};

/// The innermost NamedScope's name; empty outside all.
const std::string& current_scope();

}  // namespace tessera
