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

/// The awaited storages of this thread; few at a time.
thread_local std::vector<const Storage*> awaited_by_thread;

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

void set_values_pending(const Storage& storage, bool awaited) {
  std::erase(awaited_by_thread, &storage);
  if (awaited) awaited_by_thread.push_back(&storage);
  detail::awaited_storages = static_cast<int>(awaited_by_thread.size());
}

bool is_awaited(const Storage& storage) {
  return std::find(awaited_by_thread.begin(), awaited_by_thread.end(), &storage) != awaited_by_thread.end();
}

}  // namespace tessera
