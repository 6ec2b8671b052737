#pragma once  // internal

#include <cstddef>
#include <cstdint>

namespace tessera {

/// A range of addresses that is reserved at once and gets memory as it is needed: pages are taken from the
/// system, and given back, in granules. A bit for each granule records whether it is held. Not thread-safe.
class PageRange {
 public:
  /// The unit in which pages are taken and given back, in bytes.
  static constexpr int64_t granule = int64_t{64} << 10;
  /// The step in which the used part of the range grows: the size of a large page.
  static constexpr int64_t growth = int64_t{2} << 20;

  /// Reserves at least `bytes` of addresses and no memory. Empty where the system has none.
  explicit PageRange(int64_t bytes);
  /// Takes the addresses over and leaves `other` empty.
  PageRange(PageRange&& other) noexcept;
  PageRange& operator=(PageRange&&) = delete;
  ~PageRange();

  /// The first address, a multiple of `growth`, and the one after the last; null for an empty range.
  /// @{
  std::byte* begin() const { return begin_; }
  std::byte* end() const { return begin_ + bytes_; }
  /// @}
  /// The length of the range of addresses: a multiple of `growth`; 0 for an empty range.
  int64_t bytes() const { return bytes_; }
  /// Whether `address` is one of the range's, with memory or without.
  bool contains(const void* address) const { return address >= begin_ && address < end(); }

  /// Bytes that `commit` would take from the system.
  int64_t missing(const void* from, const void* to) const;
  /// Makes [from, to) usable; returns the bytes taken from the system, or -1 where it has none.
  int64_t commit(const void* from, const void* to);
  /// Gives the granules that lie entirely in [from, to) back, and their values are lost; returns their bytes.
  int64_t release(const void* from, const void* to) noexcept;

 private:
  int64_t granule_of(const void* address) const {
    return (static_cast<const std::byte*>(address) - begin_) / granule;
  }
  /// `top_` after `commit` up to `to`.
  int64_t top_for(const void* to) const;
  bool is_held(int64_t index) const { return held_[index / 64] >> (index % 64) & 1; }

  std::byte* reserved_ = nullptr;  ///< the addresses from the system; `begin_` is the first aligned one
  int64_t reserved_bytes_ = 0;
  std::byte* begin_ = nullptr;
  int64_t bytes_ = 0;
  int64_t top_ = 0;           ///< bytes from the beginning that may be read and written
  uint64_t* held_ = nullptr;  ///< a bit for each granule
};

}  // namespace tessera
