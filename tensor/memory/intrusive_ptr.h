#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace tessera {

/// Base of objects that count their own references. `Derived` may hide `destroy()`, which is called at the
/// last release.
template <class Derived>
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  /// Adds a reference; an object begins with none.
  void reference() const { count_.fetch_add(1, std::memory_order_relaxed); }
  /// Drops a reference, and calls `destroy()` when it was the last.
  void unreference() const {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      const_cast<Derived*>(static_cast<const Derived*>(this))->destroy();
  }
  /// The number of references: exact only where no other thread holds any.
  int32_t use_count() const { return count_.load(std::memory_order_acquire); }
  /// Deletes the object. Called by the last `unreference`, in its thread.
  void destroy() { delete static_cast<Derived*>(this); }

 protected:
  ~RefCounted() = default;

 private:
  mutable std::atomic<int32_t> count_{0};
};

/// A shared owner of a RefCounted object: one pointer wide, no control block.
template <class T>
class intrusive_ptr {
 public:
  /// Null.
  /// @{
  intrusive_ptr() = default;
  intrusive_ptr(std::nullptr_t) {}
  /// @}
  /// Adds a reference to `object`, which may be null.
  explicit intrusive_ptr(T* object) : object_(object) {
    if (object_) object_->reference();
  }
  /// A copy adds a reference; a move takes it over and leaves `other` null.
  /// @{
  intrusive_ptr(const intrusive_ptr& other) : intrusive_ptr(other.object_) {}
  intrusive_ptr(intrusive_ptr&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  intrusive_ptr& operator=(intrusive_ptr other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  /// @}
  ~intrusive_ptr() {
    if (object_) object_->unreference();
  }

  /// The object, still owned; null for none.
  T* get() const { return object_; }
  /// The object; the pointer must not be null.
  /// @{
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  /// @}
  /// Whether there is an object.
  explicit operator bool() const { return object_ != nullptr; }
  /// Same object, or both null.
  friend bool operator==(const intrusive_ptr& a, const intrusive_ptr& b) { return a.object_ == b.object_; }

 private:
  T* object_ = nullptr;
};

/// Allocates a T and owns it.
template <class T, class... Args>
intrusive_ptr<T> make_intrusive(Args&&... args) {
  return intrusive_ptr<T>(new T(std::forward<Args>(args)...));
}

}  // namespace tessera
