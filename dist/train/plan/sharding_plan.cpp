#include "dist/train/plan/sharding_plan.h"

#include <algorithm>

#include "tensor/number_text.h"

namespace tessera::training {
namespace {

std::string cell(std::string text, size_t width) {
  text.resize(std::max(text.size() + 1, width), ' ');
  return text;
}

std::string line(const std::string& name, const std::string& value, const std::string& third = "") {
  return "  " + cell(name, 26) + (third.empty() ? value : cell(value, 20) + third) + "\n";
}

std::string bytes(int64_t count) {
  return count == 0 ? "-" : with_prefix(static_cast<double>(count), "B");
}

}  // namespace

PeakMemory with_estimate(PeakMemory alone, const dist::Estimate& e) {
  const auto set = [&](MemoryCategory category, int64_t bytes) {
    alone.by_category[static_cast<size_t>(category)] = bytes;
  };
  set(MemoryCategory::parameter, e.state.parameter + e.temporary.parameter);
  set(MemoryCategory::gradient, e.state.gradient + e.temporary.gradient);
  set(MemoryCategory::optimizer_state, e.state.optimizer_state + e.temporary.optimizer_state);
  set(MemoryCategory::communication, e.state.communication + e.temporary.communication);
  alone.total = 0;
  for (const int64_t bytes : alone.by_category) alone.total += bytes;
  return alone;
}

std::string describe_units(const std::vector<dist::UnitEstimate>& units) {
  std::string text = "  " + cell("unit", 26) + cell("parameters", 20) + "with padding, as sharded and sent\n";
  for (size_t i = 0, end; i < units.size(); i = end) {
    for (end = i + 1; end < units.size() && units[end].padded == units[i].padded &&
                      units[end].parameters == units[i].parameters;)
      ++end;
    const std::string name = end == i + 1 ? units[i].name : units[i].name + " to " + units[end - 1].name;
    text += line(name, with_commas(units[i].parameters) + (end == i + 1 ? "" : " each"),
                 with_commas(units[i].padded));
  }
  return text;
}

std::string describe_bytes(const dist::Estimate& e) {
  std::string text =
      "  " + cell("bytes of rank 0", 26) + cell("model state", 20) + "at most in addition, in a step\n";
  text += line("parameter", bytes(e.state.parameter), bytes(e.temporary.parameter));
  text += line("gradient", bytes(e.state.gradient), bytes(e.temporary.gradient));
  text += line("optimizer state", bytes(e.state.optimizer_state), bytes(e.temporary.optimizer_state));
  text += line("communication", bytes(e.state.communication), bytes(e.temporary.communication));
  return text + line("total", bytes(e.state.total()), bytes(e.temporary.total()));
}

std::string describe_traffic(const dist::StepTraffic& traffic) {
  return line("parameters", bytes(traffic.parameters)) + line("gradients", bytes(traffic.gradients));
}

}  // namespace tessera::training
