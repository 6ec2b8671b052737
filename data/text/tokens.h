#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tessera::data {

/// A read-only array of 16-bit token ids, in memory or in a mapped file. A handle: copies and ranges share
/// the ids, and keep them alive.
class Tokens {
 public:
  Tokens() = default;
  /// Ids in memory. `name` identifies them in error messages.
  Tokens(std::vector<uint16_t> ids, std::string name);
  /// Ids that `owner` keeps alive.
  Tokens(std::shared_ptr<const void> owner, const uint16_t* ids, int64_t size, std::string name);

  /// Number of ids.
  int64_t size() const { return size_; }
  /// Id `i`, not checked: 0 <= i < size().
  uint16_t operator[](int64_t i) const { return ids_[i]; }
  /// The ids, one after another in memory.
  /// @{
  const uint16_t* begin() const { return ids_; }
  const uint16_t* end() const { return ids_ + size_; }
  /// @}
  /// Their name in error messages; of a mapped file, its path.
  const std::string& name() const { return name_; }

  /// `count` ids from `first`, with a new name. Throws DataError when they are not all inside.
  Tokens range(int64_t first, int64_t count, std::string name) const;
  /// One more than the largest id; reads all of them. 0 when there are none.
  int64_t smallest_vocabulary() const;

 private:
  std::shared_ptr<const void> owner_;
  const uint16_t* ids_ = nullptr;
  int64_t size_ = 0;
  std::string name_;
};

/// Maps a file of ids as nanoGPT writes them (`train.bin`, `val.bin`): 16-bit unsigned integers, little-
/// endian, without a header. Throws DataError when the file cannot be read, is empty, or has an odd number of
/// bytes (a file of another kind, or a truncated one).
Tokens map_token_file(const std::string& path);

}  // namespace tessera::data
