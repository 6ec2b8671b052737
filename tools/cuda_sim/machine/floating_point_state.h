// The host's floating-point state while instructions of the card run.
#pragma once

#include <cfenv>

namespace tessera::cuda_sim {

/// Round to nearest, denormals kept, until the end of the scope: what PTX arithmetic is written for. The
/// caller's thread may flush denormals, and threads inherit the state of the one that makes them.
class DefaultFloatingPoint {
 public:
  DefaultFloatingPoint() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatingPoint() { std::fesetenv(&saved_); }
  DefaultFloatingPoint(const DefaultFloatingPoint&) = delete;
  DefaultFloatingPoint& operator=(const DefaultFloatingPoint&) = delete;

 private:
  std::fenv_t saved_;
};

}  // namespace tessera::cuda_sim
