#include "dist/train/metrics/metric_names.h"

#include <algorithm>

#include "tensor/error.h"

namespace tessera::training {

bool has_control_character(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < ' '; });
}

void check_metric_name(std::string_view place, const std::string& name) {
  require<ValueError>(!name.empty(), place, ": expected a name, got an empty text");
  require<ValueError>(!has_control_character(name), place, ": expected a name without control characters");
}

}  // namespace tessera::training
