#include "autograd/debug/graph_dot.h"

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "autograd/graph/node.h"

namespace tessera {
namespace {

/// The nodes behind `root`, each once, the root's own first.
std::vector<Node*> reachable_nodes(const Variable& root) {
  std::vector<Node*> nodes;
  if (!root.requires_grad()) return nodes;
  std::unordered_set<Node*> seen;
  std::vector<Node*> stack{gradient_edge(root).node.get()};
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    if (!seen.insert(node).second) continue;
    nodes.push_back(node);
    for (size_t i = node->edges.size(); i-- > 0;)
      if (node->edges[i].node) stack.push_back(node->edges[i].node.get());
  }
  return nodes;
}

std::string escaped(const std::string& label) {
  std::string quoted;
  for (char c : label) quoted += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return quoted;
}

std::string describe_node(Node& node) {
  if (LeafNode* leaf = node.as_leaf()) {
    if (!leaf->leaf) return "label=\"(deleted)\", shape=ellipse";
    return text("label=\"", escaped(leaf->leaf->name.empty() ? "leaf" : leaf->leaf->name), "\\n",
                leaf->leaf->value.shape(), "\", shape=ellipse");
  }
  std::string label = escaped(node.name());
  for (const OutputInfo& output : node.outputs) label += text("\\n", output.shape, " ", output.dtype);
  int64_t bytes = 0;
  for (const SavedValue& value : node.saved) bytes += value.nbytes();
  if (bytes > 0) label += text("\\nsaves ", bytes, " B");
  return text("label=\"", label, "\", shape=box");
}

}  // namespace

std::string graph_dot(const Variable& root) {
  const std::vector<Node*> nodes = reachable_nodes(root);
  std::unordered_map<Node*, size_t> index;
  for (Node* node : nodes) index.emplace(node, index.size());
  std::string dot = "digraph gradients {\n  rankdir=TB;\n";
  for (Node* node : nodes) dot += text("  n", index[node], " [", describe_node(*node), "];\n");
  for (Node* node : nodes)
    for (const Edge& edge : node->edges)
      if (edge.node) dot += text("  n", index[node], " -> n", index[edge.node.get()], ";\n");
  return dot + "}\n";
}

int64_t saved_bytes(const Variable& root) {
  std::unordered_set<const Storage*> counted;
  int64_t bytes = 0;
  for (Node* node : reachable_nodes(root))
    for (const SavedValue& value : node->saved)
      if (const Storage* storage = value.storage(); storage && counted.insert(storage).second)
        bytes += storage->nbytes();
  return bytes;
}

}  // namespace tessera
