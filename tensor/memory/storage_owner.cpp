#include "tensor/memory/storage_owner.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace tessera {
namespace {

/// A table, since few storages have an owner: it is looked up when their bytes are missing.
struct Owners {
  std::mutex mutex;
  std::unordered_map<const Storage*, StorageOwner*> by_storage;
};

/// The storages with pending values in this thread; few at a time.
thread_local std::vector<const Storage*> pending_in_thread;

Owners& owners() {
  static Owners all;
  return all;
}

}  // namespace

void set_owner(const Storage& storage, StorageOwner* owner) {
  const std::lock_guard lock(owners().mutex);
  if (owner)
    owners().by_storage[&storage] = owner;
  else
    owners().by_storage.erase(&storage);
}

StorageOwner* owner_of(const Storage& storage) {
  const std::lock_guard lock(owners().mutex);
  const auto found = owners().by_storage.find(&storage);
  return found == owners().by_storage.end() ? nullptr : found->second;
}

void set_values_pending(const Storage& storage, bool pending) {
  std::erase(pending_in_thread, &storage);
  if (pending) pending_in_thread.push_back(&storage);
  detail::pending_storages = static_cast<int>(pending_in_thread.size());
}

bool are_values_pending(const Storage& storage) {
  return std::find(pending_in_thread.begin(), pending_in_thread.end(), &storage) != pending_in_thread.end();
}

}  // namespace tessera
