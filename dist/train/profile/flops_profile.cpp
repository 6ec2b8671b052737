#include "dist/train/profile/flops_profile.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "tensor/error.h"

namespace tessera::training {
namespace {

/// The nodes of modules, without their costs. Tied parameters count where they are found first.
ProfileNode tree_of(const nn::Module& module, int depth, nn::ParameterSet& seen) {
  ProfileNode node{.name = module.full_name(),
                   .kind = module.kind(),
                   .options = module.describe_options(),
                   .depth = depth};
  for (const nn::Module::Entry& entry : module.entries())
    if (entry.held && !entry.is_buffer && seen.insert(entry.variable.impl().get()).second)
      node.own_parameters += entry.variable.numel();
  for (const nn::Module::Child& child : module.child_entries())
    node.children.push_back(tree_of(*child.module, depth + 1, seen));
  return node;
}

bool is_backward(const Span& span) {
  return span.phase && std::string_view(span.phase) == "backward";
}

/// Whether a kernel outside every module belongs to forward or backward, not to data or optimizer.
bool is_of_model(const Span& span) {
  return !span.phase || std::string_view(span.phase) == "forward" || is_backward(span);
}

/// Adds the spans of one thread to the nodes. Spans of a thread are nested, and ordered by begin.
class SpanSums {
 public:
  explicit SpanSums(ProfileNode& root) : root_(root), root_is_model_(root.name.empty()) { index(root); }

  bool contains_modules(const Profiler::Row& row) const {
    return std::any_of(row.spans.begin(), row.spans.end(), [this](const Span& span) {
      return span.kind == SpanKind::module && (nodes_.contains(span.name) || is_model(span));
    });
  }

  /// Returns the number of kernels.
  int64_t add(const Profiler::Row& row) {
    int64_t kernels = 0;
    for (size_t i = 0; i < row.spans.size(); ++i) {
      const Span& span = row.spans[i];
      while (!open_.empty() && open_.back().end <= span.begin) close();
      if (span.kind == SpanKind::module) {
        open(span, i + 1 < row.spans.size() ? &row.spans[i + 1] : nullptr);
      } else if (span.kind == SpanKind::kernel) {
        ++kernels;
        if (ProfileNode* node = owner_of(span)) add_kernel(*node, span);
      } else if (span.flops != 0) {
        if (ProfileNode* node = owner_of(span)) cost_of(*node, span).flops += span.flops;
      }
    }
    while (!open_.empty()) close();
    return kernels;
  }

 private:
  struct Open {
    ProfileNode* node;  // null: a module that is not in the tree
    PassCost* cost;
    int64_t begin, end, inside;  // inside: nanoseconds of the modules directly in it
  };

  void index(ProfileNode& node) {
    if (!node.name.empty()) nodes_[node.name] = &node;
    for (ProfileNode& child : node.children) index(child);
  }

  /// A root's span is named "model", and so is that of a child of this name.
  bool is_model(const Span& span) const { return root_is_model_ && std::string_view(span.name) == "model"; }

  ProfileNode* node_of(const Span& span, const Span* next) {
    const auto found = nodes_.find(span.name);
    ProfileNode* named = found == nodes_.end() ? nullptr : found->second;
    if (!is_model(span) || !named) return is_model(span) ? &root_ : named;
    const bool shows_module = next && next->end <= span.end && next->kind != SpanKind::module;
    if (shows_module) return next->module ? named : &root_;
    const bool inside_root =
        std::any_of(open_.begin(), open_.end(), [this](const Open& outer) { return outer.node == &root_; });
    return inside_root ? named : &root_;
  }

  static PassCost& cost_of(ProfileNode& node, const Span& span) {
    return is_backward(span) ? node.own_backward : node.own_forward;
  }

  /// The node that a span counts for; null: none.
  ProfileNode* owner_of(const Span& span) {
    if (!open_.empty()) return open_.back().node;
    return is_of_model(span) ? &root_ : nullptr;
  }

  void open(const Span& span, const Span* next) {
    ProfileNode* node = node_of(span, next);
    if (node && !is_backward(span)) ++node->calls;
    if (!node && !open_.empty()) node = open_.back().node;  // a scope that is no module
    PassCost* cost = node ? &cost_of(*node, span) : nullptr;
    if (cost) cost->flops += span.flops;
    open_.push_back({node, cost, span.begin, span.end, 0});
  }

  void close() {
    const Open ended = open_.back();
    open_.pop_back();
    const int64_t time = ended.end - ended.begin;
    if (ended.cost) ended.cost->nanoseconds += time - ended.inside;
    if (!open_.empty()) open_.back().inside += time;
  }

  void add_kernel(ProfileNode& node, const Span& span) {
    PassCost& cost = cost_of(node, span);
    cost.flops += span.flops;
    if (span.nested) return;  // the outer kernel has its operands and its time
    cost.bytes += span.bytes;
    if (open_.empty()) cost.nanoseconds += span.end - span.begin;
  }

  ProfileNode& root_;
  const bool root_is_model_;
  std::unordered_map<std::string_view, ProfileNode*> nodes_;
  std::vector<Open> open_;
};

/// Fills the fields that include the children's.
void sum_up(ProfileNode& node) {
  node.parameters = node.own_parameters;
  node.forward = node.own_forward;
  node.backward = node.own_backward;
  for (ProfileNode& child : node.children) {
    sum_up(child);
    node.parameters += child.parameters;
    node.forward += child.forward;
    node.backward += child.backward;
  }
}

/// Adds the times of a thread's phases and steps.
void add_phases(const Profiler::Row& row, FlopsProfile& profile) {
  for (const Span& span : row.spans) {
    if (span.nested) continue;
    const int64_t time = span.end - span.begin;
    if (span.kind == SpanKind::step) profile.nanoseconds += time;
    if (span.kind != SpanKind::phase) continue;
    const auto found = std::find_if(profile.phases.begin(), profile.phases.end(),
                                    [&](const PhaseTime& phase) { return phase.name == span.name; });
    if (found == profile.phases.end())
      profile.phases.push_back({span.name, time});
    else
      found->nanoseconds += time;
  }
}

int64_t calls_of(const ProfileNode& node) {
  int64_t calls = node.calls;
  for (const ProfileNode& child : node.children) calls += calls_of(child);
  return calls;
}

void drop_times(ProfileNode& node) {
  node.own_forward.nanoseconds = node.own_backward.nanoseconds = 0;
  for (ProfileNode& child : node.children) drop_times(child);
}

void list(const ProfileNode& node, std::vector<const ProfileNode*>& nodes) {
  nodes.push_back(&node);
  for (const ProfileNode& child : node.children) list(child, nodes);
}

}  // namespace

PassCost& PassCost::operator+=(const PassCost& other) {
  flops += other.flops;
  bytes += other.bytes;
  nanoseconds += other.nanoseconds;
  return *this;
}

int64_t FlopsProfile::phase_nanoseconds(const std::string& name) const {
  for (const PhaseTime& phase : phases)
    if (phase.name == name) return phase.nanoseconds;
  return 0;
}

FlopsProfile profile_from(const nn::Module& module, const Profiler& profiler, int rank) {
  nn::ParameterSet seen;
  FlopsProfile profile{.root = tree_of(module, 0, seen)};
  SpanSums sums(profile.root);
  int64_t kernels = 0;
  for (const Profiler::Row& row : profiler.rows()) {
    if (row.rank != rank || !sums.contains_modules(row)) continue;
    kernels += sums.add(row);
    add_phases(row, profile);
  }
  require<ValueError>(calls_of(profile.root) > 0, "profile_modules: the step called no module of ",
                      profile.root.kind, profile.root.name.empty() ? "" : " '" + profile.root.name + "'",
                      ": call the module itself, not its forward");
  if (profile.root.name.empty()) profile.root.name = "(model)";
  profile.is_plan = kernels == 0;
  if (profile.is_plan) {
    drop_times(profile.root);
    profile.phases.clear();
    profile.nanoseconds = 0;
  }
  sum_up(profile.root);
  return profile;
}

FlopsProfile profile_modules(nn::Module& module, const std::function<void()>& step, int64_t number) {
  Profiler profiler;
  {
    const ProfilerScope recording(profiler);
    const SpanScope span(SpanKind::step, "step", number);
    step();
  }
  FlopsProfile profile = profile_from(module, profiler, span_origin().rank);
  profile.step = number;
  return profile;
}

std::vector<const ProfileNode*> slowest_first(const FlopsProfile& profile) {
  std::vector<const ProfileNode*> nodes;
  list(profile.root, nodes);
  std::stable_sort(nodes.begin(), nodes.end(), [&](const ProfileNode* a, const ProfileNode* b) {
    return profile.is_plan ? a->own_flops() > b->own_flops() : a->own_nanoseconds() > b->own_nanoseconds();
  });
  return nodes;
}

}  // namespace tessera::training
