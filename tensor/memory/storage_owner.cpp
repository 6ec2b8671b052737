#include "tensor/memory/storage_owner.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace tessera {
namespace {

/// Few storages have an owner, and it is asked for when their bytes are missing: they hold nothing for it.
struct Owners {
  std::mutex mutex;
  std::unordered_map<const Storage*, StorageOwner*> by_storage;
};

/// This thread's; few at a time.
thread_local std::vector<const Storage*> awaited;

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

void set_awaited(const Storage& storage, bool is_awaited_now) {
  std::erase(awaited, &storage);
  if (is_awaited_now) awaited.push_back(&storage);
  detail::awaited_storages = static_cast<int>(awaited.size());
}

bool is_awaited(const Storage& storage) {
  return std::find(awaited.begin(), awaited.end(), &storage) != awaited.end();
}

}  // namespace tessera
