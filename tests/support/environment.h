#pragma once

#include <stdlib.h>

#include <string>

/// Sets an environment variable, and restores it at the end of its scope; null: unset.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* before = ::getenv(name)) before_ = before, was_set_ = true;
    set(value);
  }
  ~Environment() { set(was_set_ ? before_.c_str() : nullptr); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  void set(const char* value) { value == nullptr ? ::unsetenv(name_) : ::setenv(name_, value, 1); }

  const char* name_;
  std::string before_;
  bool was_set_ = false;
};
