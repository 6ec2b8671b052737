#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tensor/device.h"
#include "tensor/memory/account.h"
#include "tensor/memory/intrusive_ptr.h"

namespace tessera {

/// Where the bytes of storages come from, other than the allocator: memory that a communicator shares with
/// other processes, for one.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// `nbytes` of uninitialised memory, 64-byte aligned. Throws OutOfMemoryError. Called by any thread.
  virtual void* take(int64_t nbytes) = 0;
  /// Takes them back; `nbytes` as it was asked for.
  virtual void give(void* block, int64_t nbytes) noexcept = 0;
};

/// A block of bytes on a device, shared by a tensor and its views. Its bytes can be released and refilled in
/// place: the storage keeps its identity, so views of it (also those saved in a graph) see the numbers again.
/// It remembers the account and the category into which its bytes were entered.
class Storage : public RefCounted<Storage> {
 public:
  /// Whether a new storage has its bytes, or gets them at its first refill.
  enum class Born : uint8_t { filled, released };

  /// Allocates `nbytes` (uninitialised; none on meta). Throws OutOfMemoryError, NotBuiltError for an unbuilt
  /// device, ValueError for a negative number.
  static intrusive_ptr<Storage> allocate(int64_t nbytes, Device device, Born born = Born::filled);
  /// The same on the CPU, now and at every refill from `source`.
  static intrusive_ptr<Storage> allocate(int64_t nbytes, std::shared_ptr<MemorySource> source,
                                         Born born = Born::filled);
  /// Wraps memory that somebody else owns (a mapped file, a communicator's buffer); `on_last_use` is called
  /// when the storage goes. Entered in no account.
  static intrusive_ptr<Storage> wrap(void* data, int64_t nbytes, Device device,
                                     std::function<void()> on_last_use);

  Device device() const { return device_; }
  int64_t nbytes() const { return nbytes_; }
  /// Where the bytes are now; null on meta. Throws StorageError naming the label when they were released.
  void* data() const {
    if (released_) [[unlikely]]
      throw_released();
    return data_;
  }

  /// Gives the bytes back; every use until `refill` is an error. Does nothing when they already are released,
  /// or on meta. Throws StorageError for wrapped memory.
  void release();
  /// Takes bytes again (uninitialised), for the same account. Does nothing when there are bytes.
  void refill();
  bool is_released() const { return released_; }

  /// Moves the bytes to another category of the account.
  void retag(MemoryCategory category);
  MemoryCategory category() const { return category_; }

  /// Who this is in error messages: the parameter's name and its unit.
  void set_label(std::string label) { label_ = std::move(label); }
  const std::string& label() const { return label_; }

 private:
  friend class RefCounted<Storage>;
  Storage(int64_t nbytes, Device device) : device_(device), nbytes_(nbytes) {}
  ~Storage();
  void enter(intrusive_ptr<MemoryAccount> account, Born born);
  void take_bytes();
  void give_bytes() noexcept;
  [[noreturn]] void throw_released() const;

  Device device_;
  MemoryCategory category_ = MemoryCategory::other;
  bool released_ = false;
  int64_t nbytes_;
  void* data_ = nullptr;
  intrusive_ptr<MemoryAccount> account_;
  std::shared_ptr<MemorySource> source_;  ///< null: the allocator
  std::function<void()> on_last_use_;
  std::string label_;
};

}  // namespace tessera
