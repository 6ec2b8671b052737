#include "tools/cuda_sim/checks/counters.h"

#include <iomanip>
#include <sstream>
#include <string_view>
#include <vector>

namespace tessera::cuda_sim {

namespace {

constexpr CounterName names[] = {
    {"launches", &KernelCounters::launches},
    {"blocks", &KernelCounters::blocks},
    {"warp_instructions", &KernelCounters::warp_instructions},
    {"lane_instructions", &KernelCounters::lane_instructions},
    {"divergent_branches", &KernelCounters::divergent_branches},
    {"load_bytes", &KernelCounters::load_bytes},
    {"store_bytes", &KernelCounters::store_bytes},
    {"load_requests", &KernelCounters::load_requests},
    {"store_requests", &KernelCounters::store_requests},
    {"load_sectors", &KernelCounters::load_sectors},
    {"store_sectors", &KernelCounters::store_sectors},
    {"ideal_load_sectors", &KernelCounters::ideal_load_sectors},
    {"ideal_store_sectors", &KernelCounters::ideal_store_sectors},
    {"shared_requests", &KernelCounters::shared_requests},
    {"shared_wavefronts", &KernelCounters::shared_wavefronts},
    {"local_bytes", &KernelCounters::local_bytes},
    {"atomics", &KernelCounters::atomics},
    {"barriers", &KernelCounters::barriers},
    {"flops_f64", &KernelCounters::flops_f64},
    {"flops_f32", &KernelCounters::flops_f32},
    {"flops_f16", &KernelCounters::flops_f16},
    {"flops_mma", &KernelCounters::flops_mma},
    {"special_functions", &KernelCounters::special_functions},
};

}  // namespace

std::span<const CounterName> counter_names() {
  return names;
}

KernelCounters& KernelCounters::operator+=(const KernelCounters& other) {
  for (const CounterName& one : names) this->*one.member += other.*one.member;
  host_seconds += other.host_seconds;
  return *this;
}

void CounterTable::add(const std::string& kernel, const KernelCounters& counters) {
  const std::lock_guard lock(mutex_);
  counters_[kernel] += counters;
}

std::map<std::string, KernelCounters> CounterTable::all() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void CounterTable::clear() {
  const std::lock_guard lock(mutex_);
  counters_.clear();
}

namespace {

/// "1.25", "-" where there is nothing to divide by.
std::string ratio(uint64_t value, uint64_t by) {
  if (by == 0) return "-";
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << static_cast<double>(value) / static_cast<double>(by);
  return text.str();
}

/// "1.5k", "2.3M", "4.0G".
std::string amount(uint64_t value) {
  if (value < 1000) return std::to_string(value);
  auto scaled = static_cast<double>(value);
  size_t unit = 0;
  constexpr std::string_view units = " kMGT";
  while (scaled >= 1000 && unit + 1 < units.size()) {
    scaled /= 1000;
    ++unit;
  }
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << scaled << units[unit];
  return text.str();
}

}  // namespace

void CounterTable::print(std::ostream& out) const {
  const std::vector<std::string> head = {
      "launches",    "warp insts",  "active lanes",    "divergent", "load bytes",      "sectors/request",
      "of ideal",    "store bytes", "sectors/request", "of ideal",  "shared requests", "wavefronts/request",
      "local bytes", "atomics",     "barriers",        "flops",     "mma flops",       "special"};
  const auto row = [&](const std::vector<std::string>& cells, const std::string& kernel) {
    for (size_t i = 0; i < cells.size(); ++i)
      out << std::setw(static_cast<int>(head[i].size()) + 2) << cells[i];
    out << "  " << kernel << '\n';
  };
  row(head, "kernel");
  for (const auto& [kernel, c] : all())
    row({amount(c.launches), amount(c.warp_instructions), ratio(c.lane_instructions, c.warp_instructions),
         amount(c.divergent_branches), amount(c.load_bytes), ratio(c.load_sectors, c.load_requests),
         ratio(c.load_sectors, c.ideal_load_sectors), amount(c.store_bytes),
         ratio(c.store_sectors, c.store_requests), ratio(c.store_sectors, c.ideal_store_sectors),
         amount(c.shared_requests), ratio(c.shared_wavefronts, c.shared_requests), amount(c.local_bytes),
         amount(c.atomics), amount(c.barriers), amount(c.flops_f64 + c.flops_f32 + c.flops_f16),
         amount(c.flops_mma), amount(c.special_functions)},
        kernel);
}

void CounterTable::write_json(std::ostream& out, int device) const {
  for (const auto& [kernel, c] : all()) {
    out << "{\"device\": " << device << ", \"kernel\": \"";
    for (const char letter : kernel) {
      if (letter == '"' || letter == '\\') out << '\\';
      out << letter;
    }
    out << '"';
    for (const CounterName& one : names) out << ", \"" << one.name << "\": " << c.*one.member;
    out << "}\n";
  }
}

}  // namespace tessera::cuda_sim
