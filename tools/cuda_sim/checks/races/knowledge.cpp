#include "tools/cuda_sim/checks/races/knowledge.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tessera::cuda_sim {

namespace {
constexpr uint32_t fan_bits = 4, fan = 1u << fan_bits;
}

/// A leaf has values, an inner node children.
struct Knowledge::Node {
  std::array<uint32_t, fan> values{};
  std::array<Pointer, fan> children;
};

namespace {

using Node = Knowledge::Node;
using Pointer = Knowledge::Pointer;

Pointer join(const Pointer& a, const Pointer& b, uint32_t height) {
  if (a == b || b == nullptr) return a;
  if (a == nullptr) return b;
  Node both = *a;
  bool is_a = true, is_b = true;
  for (uint32_t i = 0; i < fan; ++i) {
    if (height == 0) {
      both.values[i] = std::max(a->values[i], b->values[i]);
      is_a = is_a && both.values[i] == a->values[i];
      is_b = is_b && both.values[i] == b->values[i];
    } else {
      both.children[i] = join(a->children[i], b->children[i], height - 1);
      is_a = is_a && both.children[i] == a->children[i];
      is_b = is_b && both.children[i] == b->children[i];
    }
  }
  if (is_a) return a;
  if (is_b) return b;
  return std::make_shared<const Node>(std::move(both));
}

Pointer set(const Pointer& node, uint32_t publisher, uint32_t releases, uint32_t height) {
  Node changed = node ? *node : Node{};
  const uint32_t digit = publisher >> (height * fan_bits) & (fan - 1);
  if (height == 0)
    changed.values[digit] = std::max(changed.values[digit], releases);
  else
    changed.children[digit] = set(changed.children[digit], publisher, releases, height - 1);
  return std::make_shared<const Node>(std::move(changed));
}

}  // namespace

Knowledge Knowledge::grown(uint32_t height) const {
  Knowledge result = *this;
  for (; result.height_ < height; ++result.height_) {
    if (result.root_ == nullptr) continue;
    Node above;
    above.children[0] = result.root_;
    result.root_ = std::make_shared<const Node>(std::move(above));
  }
  return result;
}

uint32_t Knowledge::of(uint32_t publisher) const {
  if (root_ == nullptr || publisher >> ((height_ + 1) * fan_bits) != 0) return 0;
  const Node* node = root_.get();
  for (uint32_t level = height_; level > 0; --level) {
    node = node->children[publisher >> (level * fan_bits) & (fan - 1)].get();
    if (node == nullptr) return 0;
  }
  return node->values[publisher & (fan - 1)];
}

Knowledge Knowledge::with(uint32_t publisher, uint32_t releases) const {
  if (of(publisher) >= releases) return *this;
  uint32_t height = height_;
  while (publisher >> ((height + 1) * fan_bits) != 0) ++height;
  Knowledge result = grown(height);
  result.root_ = set(result.root_, publisher, releases, height);
  return result;
}

Knowledge Knowledge::joined(const Knowledge& other) const {
  if (other.is_empty()) return *this;
  if (is_empty()) return other;
  Knowledge a = grown(other.height_);
  const Knowledge b = other.grown(height_);
  a.root_ = join(a.root_, b.root_, a.height_);
  return a;
}

}  // namespace tessera::cuda_sim
