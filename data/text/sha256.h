#pragma once  // internal

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace tessera::data {

/// SHA-256 (FIPS 180-4) of data in consecutive chunks, by OpenSSL.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  /// Appends `count` bytes to the data.
  void update(const void* bytes, size_t count);
  /// The hash of all data in 64 hexadecimal digits. Call it once, at the end.
  std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

/// The SHA-256 of `bytes` in 64 hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace tessera::data
