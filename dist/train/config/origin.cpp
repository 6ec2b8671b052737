#include "dist/train/config/origin.h"

namespace tessera::training {

std::string to_string(const Origin& origin) {
  const auto with_place = [&](const char* name, const char* separator) {
    return origin.place.empty() ? std::string(name) : name + (separator + origin.place);
  };
  switch (origin.source) {
    case Source::standard:
      return "default";
    case Source::preset:
      return with_place("preset", " ");
    case Source::checkpoint:
      return with_place("checkpoint", " ");
    case Source::file:
      return with_place("file", " ");
    case Source::flag:
      return with_place("flag", " ");
    case Source::program:
      return with_place("program", " ");
    case Source::derived:
      break;
  }
  return with_place("derived", ": ");
}

}  // namespace tessera::training
