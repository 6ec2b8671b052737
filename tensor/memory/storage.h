#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tensor/device.h"
#include "tensor/memory/account.h"
#include "tensor/memory/intrusive_ptr.h"

namespace tessera {

/// A source of storages' bytes other than the allocator: for example memory that a communicator shares with
/// other processes.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// `nbytes` of uninitialised memory, 64-byte aligned. Throws OutOfMemoryError. Called by any thread.
  virtual void* take(int64_t nbytes) = 0;
  /// Takes a block back; `nbytes` as in `take`.
  virtual void give(void* block, int64_t nbytes) noexcept = 0;
};

/// A block of bytes on a device, shared by a tensor and its views. Its bytes can be released and refilled in
/// place: the storage keeps its identity, so views of it (also those saved in a graph) see the values again.
/// It keeps the account and the category in which its bytes are counted.
class Storage : public RefCounted<Storage> {
 public:
  /// Whether a new storage has its bytes (uninitialised), or gets them at its first `refill`.
  enum class Initial : uint8_t { filled, released };

  /// Allocates `nbytes` (uninitialised; none on meta). Throws OutOfMemoryError, NotBuiltError for an unbuilt
  /// device, ValueError for a negative size.
  static intrusive_ptr<Storage> allocate(int64_t nbytes, Device device, Initial initial = Initial::filled);
  /// The same on the CPU, now and at every refill from `source`.
  static intrusive_ptr<Storage> allocate(int64_t nbytes, std::shared_ptr<MemorySource> source,
                                         Initial initial = Initial::filled);
  /// Wraps memory of another owner (a mapped file, a communicator's buffer); `on_destroy` is called when the
  /// storage is destroyed. Counted in no account.
  static intrusive_ptr<Storage> wrap(void* data, int64_t nbytes, Device device,
                                     std::function<void()> on_destroy);

  /// Wraps samples that lie in `base`, on the CPU: sample i has the bytes from `sample_stride` i on
  /// (tensor/batched).
  static intrusive_ptr<Storage> batched(intrusive_ptr<Storage> base, int64_t sample_stride, int32_t samples);

  /// Where the bytes are.
  Device device() const { return device_; }
  /// Whether its bytes are its own: not memory of another owner, or the samples in another storage.
  bool owns_bytes() const { return static_cast<bool>(account_); }
  /// On a batched device: bytes from one sample to the next; 0 where all samples share their bytes.
  int64_t sample_stride() const { return sample_stride_; }
  /// The size in bytes, also while they are released, and on meta; on a batched device that of one sample.
  int64_t nbytes() const { return nbytes_; }
  /// The address of the bytes; null on meta. Throws StorageError naming the label when they were released.
  void* data() const {
    if (released_) [[unlikely]]
      throw_released();
    return data_;
  }

  /// Gives the bytes back (on meta, those counted in the account); every use until `refill` is an error. Does
  /// nothing when they are released already. Throws StorageError for wrapped memory.
  void release();
  /// Takes bytes again (uninitialised), for the same account. Does nothing when there are bytes.
  void refill();
  /// Whether the bytes are missing: after `release`, or initial released, until `refill`.
  bool is_released() const { return released_; }

  /// Moves the bytes to another category of the account.
  void set_category(MemoryCategory category);
  /// The category in which the bytes are counted: that of the thread that made the storage, until
  /// `set_category`. `other` for wrapped memory.
  MemoryCategory category() const { return category_; }

  /// The storage's name in error messages: the parameter's name and its unit.
  void set_label(std::string label) { label_ = std::move(label); }
  /// The name set by `set_label`; empty for none.
  const std::string& label() const { return label_; }

 private:
  friend class RefCounted<Storage>;
  Storage(int64_t nbytes, Device device) : device_(device), nbytes_(nbytes), sample_stride_(nbytes) {}
  int64_t allocated_bytes() const { return device_.is_batched() ? nbytes_ * device_.samples : nbytes_; }
  ~Storage();
  void initialize(intrusive_ptr<MemoryAccount> account, Initial initial);
  void allocate_bytes();
  void free_bytes() noexcept;
  [[noreturn]] void throw_released() const;

  Device device_;
  MemoryCategory category_ = MemoryCategory::other;
  bool released_ = false;
  int64_t nbytes_;
  int64_t sample_stride_;
  void* data_ = nullptr;
  intrusive_ptr<MemoryAccount> account_;
  std::shared_ptr<MemorySource> source_;  ///< null: the allocator
  std::function<void()> on_destroy_;
  std::string label_;
};

}  // namespace tessera
