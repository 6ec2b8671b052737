#pragma once  // internal

#include <cstdint>

namespace tessera::data {

/// A random order of 0 .. size-1 that needs no memory: its i-th entry is computed independently, so that any
/// rank, or a resumed run, can start anywhere. A Feistel network over the next even power of two, repeated
/// until the result is below `size` (cycle walking; Black and Rogaway, "Ciphers with Arbitrary Finite
/// Domains", 2002), with Philox as its round function. Entries are a pure function of (size, seed, epoch).
class Permutation {
 public:
  /// Throws ConfigError for a negative size.
  Permutation(int64_t size, uint64_t seed, int64_t epoch);

  /// Number of entries.
  int64_t size() const { return size_; }
  /// Entry `i`. Throws IndexError outside [0, size).
  int64_t operator[](int64_t i) const;

 private:
  uint64_t scramble(uint64_t value) const;

  int64_t size_;
  uint64_t seed_, epoch_;
  int half_bits_;
};

}  // namespace tessera::data
