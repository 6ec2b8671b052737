#pragma once  // internal

#include <string>

#include "tensor/memory/storage.h"

namespace tessera {

/// The owner of storages with bytes that are released and refilled: describes them in errors, and brings
/// their values back where it can.
class StorageOwner {
 public:
  virtual ~StorageOwner() = default;
  /// The error message for a use of the released `storage`: what it holds, and how to get its values.
  virtual std::string describe_released(const Storage& storage) const = 0;
  /// Refills the released `storage`, waits for pending values, or does nothing: its next use is an error
  /// then.
  virtual void ensure_values(Storage& storage) = 0;
};

/// Sets the owner of a storage. Set it to null before the storage or the owner is destroyed.
void set_owner(const Storage& storage, StorageOwner* owner);
/// The owner of a storage; null for none.
StorageOwner* owner_of(const Storage& storage);

/// Marks a storage that has its bytes, while its values are still arriving: this thread has to wait for them.
void set_values_pending(const Storage& storage, bool pending);
/// Whether this thread has marked the values of the storage as pending.
bool are_values_pending(const Storage& storage);

namespace detail {
inline constinit thread_local int pending_storages = 0;
}

/// Calls the owner's `ensure_values`, if there is an owner, for released bytes and for pending values. Called
/// where a computation can wait for them: before backward reads a saved value, or writes a first gradient.
inline void ensure_values(Storage& storage) {
  if (!storage.is_released() && (detail::pending_storages == 0 || !are_values_pending(storage))) [[likely]]
    return;
  if (StorageOwner* owner = owner_of(storage)) owner->ensure_values(storage);
}

}  // namespace tessera
