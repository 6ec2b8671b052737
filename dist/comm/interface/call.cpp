#include "dist/comm/interface/call.h"

#include <cstdio>

#include "tensor/error.h"

namespace tessera::dist {
namespace {

/// "2.4 MB", "512 bytes".
std::string bytes_text(int64_t bytes) {
  constexpr const char* units[] = {"kB", "MB", "GB", "TB"};
  if (bytes < 1000) return text(bytes, bytes == 1 ? " byte" : " bytes");
  double value = static_cast<double>(bytes) / 1000;
  int unit = 0;
  for (; value >= 999.95 && unit < 3; ++unit) value /= 1000;
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.1f %s", value, units[unit]);
  return buffer;
}

}  // namespace

const char* name_of(CallKind kind) {
  constexpr const char* names[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all",
                                   "send",       "recv",       "barrier",        "split"};
  return names[static_cast<int>(kind)];
}

const char* name_of(Reduction reduction) {
  constexpr const char* names[] = {"sum", "avg", "min", "max"};
  return names[static_cast<int>(reduction)];
}

const char* name_of(Traffic traffic) {
  constexpr const char* names[] = {"parameters", "gradients", "activations", "state", "control"};
  return names[static_cast<int>(traffic)];
}

std::string to_string(const CallHeader& header) {
  std::string result = text(name_of(header.kind), " #", header.sequence);
  if (!header.unit.empty()) result += text(" of unit '", header.unit, "'");
  if (header.kind == CallKind::barrier || header.kind == CallKind::split) return result;
  return result + text(" (", bytes_text(header.bytes), ")");
}

std::string describe_call(const CallHeader& header) {
  std::string result = text(name_of(header.kind), " #", header.sequence);
  if (!header.unit.empty()) result += text(" of unit '", header.unit, "'");
  if (header.kind == CallKind::barrier || header.kind == CallKind::split) return result;
  result += text(" (", header.bytes, " bytes of ", header.dtype);
  if (header.kind == CallKind::all_reduce || header.kind == CallKind::reduce_scatter)
    result += text(", ", name_of(header.reduction));
  if (header.kind == CallKind::broadcast) result += text(", root ", header.root);
  return result + ")";
}

bool same_call(const CallHeader& a, const CallHeader& b) {
  const bool sizes_may_differ = a.kind == CallKind::all_to_all;  // its counts are compared one by one
  return a.kind == b.kind && a.sequence == b.sequence && (sizes_may_differ || a.bytes == b.bytes) &&
         a.dtype == b.dtype && a.reduction == b.reduction && a.root == b.root && a.unit == b.unit;
}

}  // namespace tessera::dist
