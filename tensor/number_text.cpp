#include "tensor/number_text.h"

#include <cstdio>

namespace tessera {

std::string with_commas(int64_t value) {
  const std::string digits = std::to_string(value);
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && digits[i - 1] != '-' && (digits.size() - i) % 3 == 0) out.push_back(',');
    out.push_back(digits[i]);
  }
  return out;
}

std::string with_prefix(double value, const std::string& unit) {
  constexpr const char* prefixes[] = {"", "k", "M", "G", "T", "P"};
  int p = 0;
  while (value >= 999.95 && p < 5) {
    value /= 1000;
    ++p;
  }
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.4g %s", value, prefixes[p]);
  return buffer + unit;
}

std::string fixed(double value, int decimals) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", decimals, value);
  return buffer;
}

}  // namespace tessera
