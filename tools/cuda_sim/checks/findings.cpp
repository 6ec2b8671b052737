#include "tools/cuda_sim/checks/findings.h"

#include <array>
#include <cstdio>
#include <stdexcept>
#include <utility>

namespace tessera::cuda_sim {

namespace {

constexpr std::array<std::string_view, static_cast<size_t>(Check::count)> names = {
    "bounds",         "alignment",  "initialisation", "shared-race", "global-race", "stream-race",
    "copy-in-flight", "divergence", "use-after-free", "leak",        "capture",     "deadlock"};

/// What makes two findings the same: the check and the instruction, or the text where there is no kernel.
std::string key_of(Check check, const Site& site, std::string_view message) {
  std::string key(check_name(check));
  key += '\n' + site.kernel + '\n' + site.file + '\n' + std::to_string(site.line) + '\n' + site.instruction;
  if (site.kernel.empty()) key += message;
  return key;
}

void print(const Finding& finding) {
  const Site& site = finding.site;
  std::string line = "[cuda_sim] " + std::string(check_name(finding.check)) + ": " + finding.message;
  if (!site.kernel.empty()) {
    line += "\n[cuda_sim]   in " + site.kernel;
    if (!site.file.empty()) line += " at " + site.file + ":" + std::to_string(site.line);
    if (!site.instruction.empty()) line += ": " + site.instruction;
    line += " (block " + std::to_string(site.block) + ", thread " + std::to_string(site.thread) + ")";
  }
  line += '\n';
  std::fputs(line.c_str(), stderr);
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

uint32_t bits_named(std::string_view name) {
  if (name == "all") return ~0u;
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return 1u << i;
  std::string known = "all, none";
  for (const std::string_view one : names) known += ", " + std::string(one);
  throw std::invalid_argument("names of checks, '" + std::string(name) + "' is none: " + known);
}

}  // namespace

std::string_view check_name(Check check) {
  return names.at(static_cast<size_t>(check));
}

void Findings::add(Check check, std::string message, const Site& site) {
  if (!is_on(check)) return;
  const std::lock_guard lock(mutex_);
  ++count_;
  const auto [it, is_new] = findings_.try_emplace(key_of(check, site, message));
  if (!is_new) {
    ++it->second.count;
    return;
  }
  it->second = {.check = check, .message = std::move(message), .site = site, .count = 1};
  if (prints) print(it->second);
}

bool Findings::add_again(Check check, const Site& site) {
  if (!is_on(check)) return true;
  if (site.kernel.empty()) return false;
  const std::lock_guard lock(mutex_);
  const auto it = findings_.find(key_of(check, site, ""));
  if (it == findings_.end()) return false;
  ++it->second.count;
  ++count_;
  return true;
}

void Findings::switch_on(Check check, bool on) {
  const uint32_t bit = 1u << static_cast<int>(check);
  if (on)
    on_.fetch_or(bit);
  else
    on_.fetch_and(~bit);
}

void Findings::switch_by_text(std::string_view text) {
  uint32_t bits = 0;
  bool is_first = true;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    std::string_view name = trim(text.substr(0, comma));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const bool removes = !name.empty() && name.front() == '-';
    if (removes) name.remove_prefix(1);
    // "-leak" alone takes away from all.
    if (is_first && removes) bits = ~0u;
    is_first = false;
    const uint32_t named = name == "none" ? 0 : bits_named(name);
    bits = removes ? bits & ~named : bits | named;
  }
  on_.store(bits);
}

std::vector<Finding> Findings::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<Finding> result;
  result.reserve(findings_.size());
  for (const auto& [key, finding] : findings_) result.push_back(finding);
  return result;
}

uint64_t Findings::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

void Findings::clear() {
  const std::lock_guard lock(mutex_);
  findings_.clear();
  count_ = 0;
}

}  // namespace tessera::cuda_sim
