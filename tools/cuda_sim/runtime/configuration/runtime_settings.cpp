#include "tools/cuda_sim/runtime/configuration/runtime_settings.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "tools/cuda_sim/checks/findings.h"
#include "tools/cuda_sim/runtime/configuration/architecture.h"

namespace tessera::cuda_sim {

namespace {

uint64_t read_number(const std::string& text, uint64_t low, uint64_t high) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high)
    throw std::invalid_argument("a number from " + std::to_string(low) + " to " + std::to_string(high));
  return value;
}

uint64_t read_bytes(const std::string& text) {
  int shift = 0;
  std::string digits = text;
  if (!digits.empty()) {
    const std::string units = "KMGT";
    if (const size_t unit = units.find(digits.back()); unit != std::string::npos) {
      shift = 10 * (static_cast<int>(unit) + 1);
      digits.pop_back();
    }
  }
  const uint64_t most = uint64_t{1} << 42;
  try {
    return read_number(digits, 1, most >> shift) << shift;
  } catch (const std::invalid_argument&) {
    throw std::invalid_argument("bytes, up to 4T, as 1000000, 512M or 4G");
  }
}

bool read_switch(const std::string& text) {
  if (text == "0") return false;
  if (text == "1") return true;
  throw std::invalid_argument("0 or 1");
}

int to_int(uint64_t value) {
  return static_cast<int>(value);
}

/// "12.4" as CUDA writes it in a number, 12040.
int read_version(const std::string& text) {
  try {
    const size_t point = text.find('.');
    if (point == std::string::npos) throw std::invalid_argument("no minor version");
    return to_int(read_number(text.substr(0, point), 1, 999) * 1000 +
                  read_number(text.substr(point + 1), 0, 99) * 10);
  } catch (const std::invalid_argument&) {
    throw std::invalid_argument("a version, as 12.4");
  }
}

const std::array<SettingRow, 16>& rows() {
  using S = RuntimeSettings;
  using Text = const std::string&;
  static const std::array<SettingRow, 16> table{{
      {"TESSERA_CUDA_SIM_ARCH", "80, 86, 89, 90", "the architecture that the card states (90)",
       [](S& s, Text v) {
         const auto capability = to_int(read_number(v, 0, 999));
         if (find_architecture(capability) == nullptr) throw std::invalid_argument("one of 80, 86, 89, 90");
         s.device.compute_capability = capability;
       }},
      {"TESSERA_CUDA_SIM_MEMORY", "bytes, 512M, 4G", "memory of each device (4G)",
       [](S& s, Text v) { s.device.memory_bytes = read_bytes(v); }},
      {"TESSERA_CUDA_SIM_DEVICES", "0 to 16", "number of devices (1)",
       [](S& s, Text v) { s.devices = to_int(read_number(v, 0, 16)); }},
      {"TESSERA_CUDA_SIM_DRIVER", "12.4", "version of the driver, which may be too old (the runtime's)",
       [](S& s, Text v) { s.driver = read_version(v); }},
      {"TESSERA_CUDA_SIM_MULTIPROCESSORS", "1 to 256", "multiprocessors that a device states (4)",
       [](S& s, Text v) { s.device.multiprocessors = to_int(read_number(v, 1, 256)); }},
      {"TESSERA_CUDA_SIM_THREADS", "0 to 256", "host threads that run blocks; 0: all processors (0)",
       [](S& s, Text v) { s.device.host_threads = to_int(read_number(v, 0, 256)); }},
      {"TESSERA_CUDA_SIM_CHECKS", "all,-shared-race", "checks that are on, by name (all)",
       [](S& s, Text v) {
         Findings().switch_by_text(v);
         s.checks = v;
       }},
      {"TESSERA_CUDA_SIM_ORDER", "eager, lazy, random", "when operations of streams run (eager)",
       [](S& s, Text v) {
         if (v == "eager")
           s.schedule.order = RunOrder::eager;
         else if (v == "lazy")
           s.schedule.order = RunOrder::lazy;
         else if (v == "random")
           s.schedule.order = RunOrder::random;
         else
           throw std::invalid_argument("eager, lazy or random");
       }},
      {"TESSERA_CUDA_SIM_BLOCKS", "ascending, descending, random",
       "the order in which blocks begin (ascending)",
       [](S& s, Text v) {
         using Order = Settings::BlockOrder;
         if (v == "ascending")
           s.device.block_order = Order::ascending;
         else if (v == "descending")
           s.device.block_order = Order::descending;
         else if (v == "random")
           s.device.block_order = Order::random;
         else
           throw std::invalid_argument("ascending, descending or random");
       }},
      {"TESSERA_CUDA_SIM_SEED", "a number", "of every random order (1)",
       [](S& s, Text v) {
         s.device.seed = read_number(v, 0, ~uint64_t{0});
         s.schedule.seed = s.device.seed;
       }},
      {"TESSERA_CUDA_SIM_COUNT", "0, 1", "count sectors, bank conflicts and operations (1)",
       [](S& s, Text v) { s.device.counts = read_switch(v); }},
      {"TESSERA_CUDA_SIM_COUNTERS", "0, 1, FILE.jsonl",
       "print the counts of each kernel at exit, or append them to a file, a JSON object a line (0)",
       [](S& s, Text v) {
         s.counters_file = v.ends_with(".jsonl") ? v : "";
         if (!s.counters_file.empty()) return;
         if (v != "0" && v != "1") throw std::invalid_argument("0, 1 or a file name that ends with .jsonl");
         s.prints_counters = v == "1";
       }},
      {"TESSERA_CUDA_SIM_EXIT_CODE", "0 to 255", "exit code of a program with findings; 0: its own (0)",
       [](S& s, Text v) { s.exit_code = to_int(read_number(v, 0, 255)); }},
      {"TESSERA_CUDA_SIM_PATIENCE", "seconds",
       "without progress, before a wait for other threads is a deadlock (60)",
       [](S& s, Text v) { s.schedule.patience = std::chrono::seconds(read_number(v, 0, 86'400)); }},
      {"TESSERA_CUDA_SIM_LIBRARY", "folder", "where Tessera looks for this library (beside the program)",
       [](S&, Text) {}},
      {"TESSERA_CUDA_SIM_HELP", "0, 1", "print this table at the start (0)",
       [](S&, Text v) { read_switch(v); }},
  }};
  return table;
}

}  // namespace

std::span<const SettingRow> setting_rows() {
  return rows();
}

void print_settings(std::ostream& out) {
  for (const SettingRow& row : rows())
    out << "[cuda_sim] " << row.name << " = " << row.values << ": " << row.meaning << '\n';
}

RuntimeSettings read_settings(const std::function<const char*(const char*)>& environment,
                              std::span<const std::string> names) {
  RuntimeSettings settings;
  for (const SettingRow& row : rows()) {
    const char* value = environment(row.name);
    if (value == nullptr) continue;
    try {
      row.read(settings, value);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(std::string(row.name) + " is '" + value + "'; expected " + error.what());
    }
  }
  for (const std::string& name : names) {
    if (std::ranges::any_of(rows(), [&](const SettingRow& row) { return name == row.name; })) continue;
    std::string known;
    for (const SettingRow& row : rows()) known += std::string(known.empty() ? "" : ", ") + row.name;
    throw std::invalid_argument(name + " is no setting; there are " + known);
  }
  return settings;
}

std::vector<std::string> setting_names_in_environment() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (text.starts_with("TESSERA_CUDA_SIM_")) names.push_back(text.substr(0, text.find('=')));
  }
  return names;
}

}  // namespace tessera::cuda_sim
