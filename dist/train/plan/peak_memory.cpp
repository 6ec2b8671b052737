#include "dist/train/plan/peak_memory.h"

#include <sys/resource.h>

#include "tensor/number_text.h"

namespace tessera::training {
namespace {

std::string cell(const std::string& text, size_t width) {
  return text + std::string(text.size() < width ? width - text.size() : 1, ' ');
}

std::string row(const std::string& name, int64_t planned, const int64_t* measured) {
  std::string line = "  " + cell(name, 22) + with_prefix(static_cast<double>(planned), "B");
  if (measured) line = cell(line, 40) + with_prefix(static_cast<double>(*measured), "B");
  return line + "\n";
}

/// "optimizer state" for "optimizer_state".
std::string display_name(MemoryCategory category) {
  std::string name = to_string(category);
  for (char& c : name)
    if (c == '_') c = ' ';
  return name;
}

}  // namespace

PeakMemory peak_of(const MemoryAccount& account) {
  return {account.total().peak, account.at_peak()};
}

int64_t peak_resident_bytes() {
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{1024} * usage.ru_maxrss;
}

std::string describe(const PeakMemory& planned, const PeakMemory* measured) {
  std::string text;
  for (int c = 0; c < memory_categories; ++c) {
    if (planned.by_category[c] == 0 && !(measured && measured->by_category[c] != 0)) continue;
    text += row(display_name(static_cast<MemoryCategory>(c)), planned.by_category[c],
                measured ? &measured->by_category[c] : nullptr);
  }
  return text + row("total", planned.total, measured ? &measured->total : nullptr);
}

}  // namespace tessera::training
