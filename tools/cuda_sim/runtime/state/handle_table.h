// Handles that a program holds: a destroyed or foreign one is an error instead of a crash.
#pragma once

#include <memory>
#include <unordered_map>
#include <utility>

namespace tessera::cuda_sim {

template <class T>
class HandleTable {
 public:
  T* add(std::unique_ptr<T> object) {
    T* pointer = object.get();
    objects_.emplace(pointer, std::move(object));
    return pointer;
  }
  /// Null for what is no live handle.
  T* find(const void* handle) const {
    const auto it = objects_.find(handle);
    return it == objects_.end() ? nullptr : it->second.get();
  }
  bool remove(const void* handle) { return objects_.erase(handle) != 0; }
  size_t size() const { return objects_.size(); }
  auto begin() const { return objects_.begin(); }
  auto end() const { return objects_.end(); }
  void clear() { objects_.clear(); }

 private:
  std::unordered_map<const void*, std::unique_ptr<T>> objects_;
};

}  // namespace tessera::cuda_sim
