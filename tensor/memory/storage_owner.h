#pragma once

#include <string>

#include "tensor/memory/storage.h"

namespace tessera {

/// Stands behind storages whose bytes come and go: says what they are, and brings them back where it can.
class StorageOwner {
 public:
  virtual ~StorageOwner() = default;
  /// What an error says where the released `storage` is used: what it holds, and how to have it.
  virtual std::string describe_released(const Storage& storage) const = 0;
  /// Refills the released `storage`, or waits for what is awaited, or leaves it: its next use is an error
  /// then.
  virtual void bring_back(Storage& storage) = 0;
};

/// Names the owner of a storage; null for none again, before either goes.
void set_owner(const Storage& storage, StorageOwner* owner);
/// That of a storage; null for none.
StorageOwner* owner_of(const Storage& storage);

/// Says that the bytes of a storage are there, but their values on the way, to be waited for by this thread.
void set_awaited(const Storage& storage, bool awaited);
bool is_awaited(const Storage& storage);

namespace detail {
inline constinit thread_local int awaited_storages = 0;
}

/// Asks the owner, if there is one, for released bytes and for awaited values. Called where a computation can
/// wait for them: before backward reads a saved value, or writes a first gradient.
inline void bring_back(Storage& storage) {
  if (!storage.is_released() && (detail::awaited_storages == 0 || !is_awaited(storage))) [[likely]]
    return;
  if (StorageOwner* owner = owner_of(storage)) owner->bring_back(storage);
}

}  // namespace tessera
