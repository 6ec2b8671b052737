#include "tensor/error.h"

#include <cstdio>

#include "tensor/uncaught_exception.h"

namespace tessera {
namespace {

// Here, since every program that uses a tensor links this source.
[[maybe_unused]] const bool has_uncaught_handler = install_uncaught_handler();

}  // namespace

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
