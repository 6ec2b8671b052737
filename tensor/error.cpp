#include "tensor/error.h"

#include <cstdio>

namespace tessera {

TextPiece::TextPiece(double piece) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.6g", piece);
  text_ = buffer;
}

std::string join_text(std::initializer_list<TextPiece> pieces) {
  std::string joined;
  for (const TextPiece& piece : pieces) joined += piece.str();
  return joined;
}

}  // namespace tessera
