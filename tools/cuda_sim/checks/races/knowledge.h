// What a thread knows of others: a vector clock that is mostly shared with other ones.
#pragma once

#include <cstdint>
#include <memory>

namespace tessera::cuda_sim {

/// For each publisher (a thread that releases), how many of its releases are known. Immutable; a trie of
/// which the branches are shared, so that a chain of n blocks that each know all before them takes n log n
/// memory.
class Knowledge {
 public:
  uint32_t of(uint32_t publisher) const;
  Knowledge with(uint32_t publisher, uint32_t releases) const;
  Knowledge joined(const Knowledge& other) const;
  bool is_empty() const { return root_ == nullptr; }
  bool is_same(const Knowledge& other) const { return root_ == other.root_; }

  struct Node;
  using Pointer = std::shared_ptr<const Node>;

 private:
  Knowledge grown(uint32_t height) const;
  Pointer root_;
  uint32_t height_ = 0;  ///< levels above the leaves
};

}  // namespace tessera::cuda_sim
