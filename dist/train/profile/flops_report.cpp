#include "dist/train/profile/flops_report.h"

#include <algorithm>
#include <cstdio>

#include "tensor/error.h"

namespace tessera::training {
namespace {

/// With three significant digits.
std::string digits(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.*f", value >= 100 ? 0 : value >= 10 ? 1 : 2, value);
  std::string number = buffer;
  if (number.find('.') != std::string::npos) {
    number.erase(number.find_last_not_of('0') + 1);
    if (number.back() == '.') number.pop_back();
  }
  return number;
}

std::string percent(double part, double whole) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.4g%%", whole > 0 ? 100 * part / whole : 0.0);
  return buffer;
}

std::string rule(const std::string& title) {
  const std::string bar(26, '-');
  return text(bar, " ", title, " ", bar, "\n");
}

std::string line(const std::string& label, const std::string& value) {
  return label + std::string(label.size() < 46 ? 46 - label.size() : 1, ' ') + value + "\n";
}

double per_second(double amount, int64_t nanoseconds) {
  return nanoseconds > 0 ? amount * 1e9 / static_cast<double>(nanoseconds) : 0.0;
}

std::string rate_text(const FlopsProfile& profile, int64_t flops, int64_t nanoseconds) {
  const double rate = per_second(static_cast<double>(flops), nanoseconds);
  std::string text = amount_text(rate, "FLOPS");
  if (profile.machine_flops > 0) text += " = " + percent(rate, profile.machine_flops) + " of the machine";
  return text;
}

/// The time of a phase, or where it was not recorded the sum over modules.
int64_t latency(const FlopsProfile& profile, const char* phase, int64_t of_modules) {
  const int64_t recorded = profile.phase_nanoseconds(phase);
  return recorded > 0 ? recorded : of_modules;
}

std::string summary_of(const FlopsProfile& p) {
  const ProfileNode& root = p.root;
  std::string text = line("params:", amount_text(static_cast<double>(root.parameters)));
  text += line("fwd MACs:", amount_text(static_cast<double>(root.forward.flops) / 2, "MACs"));
  text += line("fwd flops:", amount_text(static_cast<double>(root.forward.flops)));
  text += line("bwd flops:", amount_text(static_cast<double>(root.backward.flops)));
  if (p.is_plan) return text + "On meta: no bytes and no times.\n";
  text += line("fwd bytes moved:", amount_text(static_cast<double>(root.forward.bytes), "B"));
  text += line("bwd bytes moved:", amount_text(static_cast<double>(root.backward.bytes), "B"));
  const int64_t forward = latency(p, "forward", root.forward.nanoseconds),
                backward = latency(p, "backward", root.backward.nanoseconds);
  text += line("fwd latency:", duration_text(forward));
  text += line("fwd FLOPS:", rate_text(p, root.forward.flops, forward));
  if (backward > 0) {
    text += line("bwd latency:", duration_text(backward));
    text += line("bwd FLOPS:", rate_text(p, root.backward.flops, backward));
    text += line("fwd+bwd FLOPS:", rate_text(p, root.flops(), forward + backward));
  }
  if (const int64_t update = p.phase_nanoseconds("optimizer"); update > 0)
    text += line("step latency:", duration_text(update));
  text += line("iter latency:", duration_text(p.nanoseconds));
  text += line("FLOPS:", rate_text(p, root.flops(), p.nanoseconds));
  if (p.samples > 0)
    text += line("samples/second:", digits(per_second(static_cast<double>(p.samples), p.nanoseconds)));
  return text;
}

/// The sums of one kind of module at one depth.
struct KindTotal {
  std::string kind;
  int64_t parameters = 0, flops = 0, nanoseconds = 0;
};

/// By depth, in the order in which kinds are found first.
void add_kinds(const ProfileNode& node, std::vector<std::vector<KindTotal>>& depths) {
  if (static_cast<int>(depths.size()) <= node.depth) depths.resize(node.depth + 1);
  std::vector<KindTotal>& kinds = depths[node.depth];
  auto found = std::find_if(kinds.begin(), kinds.end(),
                            [&](const KindTotal& total) { return total.kind == node.kind; });
  if (found == kinds.end()) found = kinds.insert(kinds.end(), KindTotal{node.kind});
  found->parameters += node.parameters;
  found->flops += node.forward.flops;
  found->nanoseconds += node.forward.nanoseconds;
  for (const ProfileNode& child : node.children) add_kinds(child, depths);
}

/// "{'Linear': 65.8 k, 'Dropout': 0 }".
template <class Text>
std::string top_kinds(std::vector<KindTotal> kinds, int count, int64_t KindTotal::*field,
                      const Text& text_of) {
  std::stable_sort(kinds.begin(), kinds.end(),
                   [field](const KindTotal& a, const KindTotal& b) { return a.*field > b.*field; });
  kinds.resize(std::min(kinds.size(), static_cast<size_t>(count)));
  std::string text = "{";
  for (const KindTotal& total : kinds)
    text += (text.size() > 1 ? ", '" : "'") + total.kind + "': '" + text_of(total.*field) + "'";
  return text + "}\n";
}

std::string top_modules_of(const FlopsProfile& profile, const ReportOptions& o) {
  std::vector<std::vector<KindTotal>> depths;
  add_kinds(profile.root, depths);
  std::string out =
      text("Top ", o.top_modules, " modules in terms of params, MACs or fwd latency by depth:\n");
  for (size_t d = 0; d < depths.size(); ++d) {
    if (o.module_depth >= 0 && static_cast<int>(d) > o.module_depth) break;
    out += text("depth ", d, ":\n");
    const auto count_text = [](int64_t count) { return amount_text(static_cast<double>(count)); };
    out += "    params      - " + top_kinds(depths[d], o.top_modules, &KindTotal::parameters, count_text);
    out += "    MACs        - " + top_kinds(depths[d], o.top_modules, &KindTotal::flops, [](int64_t flops) {
             return amount_text(static_cast<double>(flops) / 2, "MACs");
           });
    if (!profile.is_plan)
      out +=
          "    fwd latency - " + top_kinds(depths[d], o.top_modules, &KindTotal::nanoseconds, duration_text);
  }
  return out;
}

std::string slowest_of(const FlopsProfile& profile, int count) {
  std::string out =
      profile.is_plan ? "Modules by their own flops:\n" : "Slowest modules, by their own time:\n";
  const double all_time = static_cast<double>(profile.root.nanoseconds()),
               all_flops = static_cast<double>(profile.root.flops());
  std::vector<const ProfileNode*> nodes = slowest_first(profile);
  nodes.resize(std::min(nodes.size(), static_cast<size_t>(count)));
  for (const ProfileNode* node : nodes) {
    const auto flops = static_cast<double>(node->own_flops());
    std::string cells =
        profile.is_plan ? ""
                        : duration_text(node->own_nanoseconds()) + " = " +
                              percent(static_cast<double>(node->own_nanoseconds()), all_time) + " latency, ";
    cells += amount_text(flops, "flops") + " = " + percent(flops, all_flops) + " flops";
    if (!profile.is_plan) cells += ", " + rate_text(profile, node->own_flops(), node->own_nanoseconds());
    out += "    " + node->name + " (" + node->kind + "): " + cells + "\n";
  }
  return out;
}

void add_tree(const FlopsProfile& profile, const ProfileNode& node, int deepest, std::string& out) {
  if (deepest >= 0 && node.depth > deepest) return;
  const ProfileNode& root = profile.root;
  const auto share = [](int64_t part, int64_t whole) {
    return percent(static_cast<double>(part), static_cast<double>(whole));
  };
  out += std::string(2 * node.depth, ' ');
  out += node.depth == 0 ? "" : "(" + node.name.substr(node.name.rfind('.') + 1) + "): ";
  out += node.kind + "(" + amount_text(static_cast<double>(node.parameters)) + " = " +
         share(node.parameters, root.parameters) + " Params, " +
         amount_text(static_cast<double>(node.forward.flops) / 2, "MACs") + " = " +
         share(node.forward.flops, root.forward.flops) + " MACs";
  if (!profile.is_plan)
    out += ", " + duration_text(node.forward.nanoseconds) + " = " +
           share(node.forward.nanoseconds, root.forward.nanoseconds) + " latency, " +
           rate_text(profile, node.forward.flops, node.forward.nanoseconds);
  if (node.calls > 1) out += text(", ", node.calls, " calls");
  if (!node.options.empty()) out += ", " + node.options;
  out += ")\n";
  for (const ProfileNode& child : node.children) add_tree(profile, child, deepest, out);
}

}  // namespace

std::string amount_text(double amount, const char* unit) {
  constexpr const char* prefixes[] = {"", "k", "M", "G", "T", "P"};
  int p = 0;
  for (; amount >= 999.5 && p < 5; ++p) amount /= 1000;
  const std::string suffix = text(prefixes[p], unit);
  return digits(amount) + (suffix.empty() ? "" : " ") + suffix;
}

std::string duration_text(int64_t nanoseconds) {
  const auto time = static_cast<double>(nanoseconds);
  if (time >= 999.5e6) return digits(time / 1e9) + " s";
  if (time >= 999.5e3) return digits(time / 1e6) + " ms";
  return digits(time / 1e3) + " us";
}

std::string flops_report(const FlopsProfile& profile, const ReportOptions& o) {
  require<ConfigError>(o.module_depth >= -1, "flops_report: module_depth: expected -1 or more, got ",
                       o.module_depth);
  require<ConfigError>(o.top_modules >= 1, "flops_report: top_modules: expected 1 or more, got ",
                       o.top_modules);
  std::string out = rule("Flops Profiler") + text("Profile Summary at step ", profile.step, ":\n") +
                    summary_of(profile) + rule("Aggregated Profile") + top_modules_of(profile, o) +
                    slowest_of(profile, o.top_modules);
  if (o.detailed) {
    out += rule("Detailed Profile");
    add_tree(profile, profile.root, o.module_depth, out);
  }
  return out;
}

}  // namespace tessera::training
