#pragma once  // internal

#include <cstdint>

#include "tensor/random/random_context.h"

namespace tessera::data {

/// While it lives, random numbers that this thread draws without a name are a function of (seed, epoch,
/// example). The destructor restores the thread's own state.
class ExampleRandomScope {
 public:
  /// Before the first example.
  ExampleRandomScope(uint64_t seed, int64_t epoch);
  /// The random numbers of example `index` from here on.
  void begin_example(int64_t index);

 private:
  uint64_t seed_;
  int64_t epoch_;
  RandomContextScope scope_;
};

}  // namespace tessera::data
