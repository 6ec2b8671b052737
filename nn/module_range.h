#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/variable.h"

/// What the traversals of a module return, for range-for: `for (auto& [name, p] : m.named_parameters())`.
namespace tessera::nn {

class Module;

/// A parameter or buffer under a name relative to the module that listed it.
struct NamedVariable {
  std::string name;   ///< "0.weight"
  Variable variable;  ///< the module's own, not a copy
};

/// A module under a name relative to the module that listed it; "" for that one itself. M is `Module`, or
/// `const Module`.
template <class M>
struct NamedModuleOf {
  std::string name;  ///< "blocks.3"
  M& module;         ///< owned by its parent
};
using NamedModule = NamedModuleOf<Module>;             ///< of a module that may be changed
using ConstNamedModule = NamedModuleOf<const Module>;  ///< of a constant one

namespace detail {

/// Iterates over pointers; gives what they point to. Pointer: `T*`, or a constant one.
template <class T>
class PointeeIterator {
 public:
  using iterator_category = std::forward_iterator_tag;  ///< for algorithms
  using value_type = std::remove_const_t<T>;            ///< of an element
  using difference_type = std::ptrdiff_t;               ///< of two iterators
  using pointer = T*;                                   ///< to an element
  using reference = T&;                                 ///< to an element

  PointeeIterator() = default;
  explicit PointeeIterator(T* const* at) : at_(at) {}
  T& operator*() const { return **at_; }
  T* operator->() const { return *at_; }
  PointeeIterator& operator++() {
    ++at_;
    return *this;
  }
  PointeeIterator operator++(int) {
    const PointeeIterator before = *this;
    ++at_;
    return before;
  }
  bool operator==(const PointeeIterator&) const = default;

 private:
  T* const* at_ = nullptr;
};

}  // namespace detail

/// Modules, by reference: `for (nn::Module& child : m.children())`.
template <class M>
class ModuleRange {
 public:
  /// The modules at these addresses, which outlive the range.
  explicit ModuleRange(std::vector<M*> modules) : modules_(std::move(modules)) {}
  /// Number of modules.
  size_t size() const { return modules_.size(); }
  /// Whether there are none.
  bool empty() const { return modules_.empty(); }
  /// Module `i`, not checked.
  M& operator[](size_t i) const { return *modules_[i]; }
  /// Iterators that give `M&`.
  /// @{
  detail::PointeeIterator<M> begin() const { return detail::PointeeIterator<M>(modules_.data()); }
  detail::PointeeIterator<M> end() const {
    return detail::PointeeIterator<M>(modules_.data() + modules_.size());
  }
  /// @}

 private:
  std::vector<M*> modules_;
};

}  // namespace tessera::nn
