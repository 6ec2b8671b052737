#pragma once  // internal

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <new>
#include <utility>

namespace tessera {

/// A vector whose first N elements lie in the object: the short lists of a graph node need no allocation.
template <class T, size_t N>
class InlineVector {
 public:
  InlineVector() = default;
  /// `count` elements, value-initialized.
  explicit InlineVector(size_t count) { resize(count); }
  /// Copies of `values`.
  InlineVector(std::initializer_list<T> values) {
    reserve(values.size());
    for (const T& value : values) push_back(value);
  }
  /// Copies the elements, or takes those of a vector that is moved from, which is empty then.
  /// @{
  InlineVector(const InlineVector& other) {
    reserve(other.size_);
    for (const T& value : other) push_back(value);
  }
  InlineVector(InlineVector&& other) noexcept { take(other); }
  InlineVector& operator=(const InlineVector& other) {
    if (this != &other) {
      InlineVector copy(other);
      clear_all();
      take(copy);
    }
    return *this;
  }
  InlineVector& operator=(InlineVector&& other) noexcept {
    if (this != &other) {
      clear_all();
      take(other);
    }
    return *this;
  }
  /// @}
  ~InlineVector() { clear_all(); }

  /// The number of elements.
  size_t size() const { return size_; }
  /// Whether there are no elements.
  bool empty() const { return size_ == 0; }
  /// Element `i`; the index is not checked.
  /// @{
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  /// @}
  /// The first element, and the end. The pointers become invalid when the capacity grows, and by a move.
  /// @{
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  /// @}
  /// The last element; the vector must not be empty.
  T& back() { return data_[size_ - 1]; }

  /// Makes room for `count` elements; those beyond the first N lie in allocated memory, with all others.
  void reserve(size_t count) {
    if (count <= capacity_) return;
    T* larger = std::allocator<T>().allocate(count);
    std::uninitialized_move(begin(), end(), larger);
    std::destroy(begin(), end());
    if (data_ != in_place()) std::allocator<T>().deallocate(data_, capacity_);
    data_ = larger;
    capacity_ = count;
  }
  /// Appends an element. A full vector doubles its capacity.
  void push_back(T value) {
    if (size_ == capacity_) reserve(2 * capacity_);
    new (data_ + size_++) T(std::move(value));
  }
  /// Removes elements at the end, or appends value-initialized ones, until there are `count`.
  void resize(size_t count) {
    reserve(count);
    while (size_ > count) data_[--size_].~T();
    while (size_ < count) new (data_ + size_++) T();
  }
  /// Removes all elements and keeps the capacity.
  void clear() { resize(0); }

 private:
  T* in_place() { return std::launder(reinterpret_cast<T*>(bytes_)); }
  void clear_all() {
    std::destroy(begin(), end());
    size_ = 0;
    if (data_ != in_place()) std::allocator<T>().deallocate(data_, capacity_);
    data_ = in_place();
    capacity_ = N;
  }
  void take(InlineVector& other) {
    if (other.data_ != other.in_place()) {
      data_ = std::exchange(other.data_, other.in_place());
      capacity_ = std::exchange(other.capacity_, N);
      size_ = std::exchange(other.size_, 0);
      return;
    }
    std::uninitialized_move(other.begin(), other.end(), data_);
    size_ = other.size_;
    std::destroy(other.begin(), other.end());
    other.size_ = 0;
  }

  alignas(T) unsigned char bytes_[N * sizeof(T)];
  T* data_ = in_place();
  size_t size_ = 0;
  size_t capacity_ = N;
};

}  // namespace tessera
