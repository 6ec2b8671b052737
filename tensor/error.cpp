#include "tensor/error.h"

#include <cstdio>

namespace tessera {

TextArgument::TextArgument(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.6g", value);
  text_ = buffer;
}

std::string join_text(std::initializer_list<TextArgument> arguments) {
  std::string joined;
  for (const TextArgument& argument : arguments) joined += argument.str();
  return joined;
}

}  // namespace tessera
