#include "tools/cuda_sim/machine/calls/format.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

namespace tessera::cuda_sim {

namespace {

/// Takes one argument after the other.
class Arguments {
 public:
  Arguments(const ThreadMemory& memory, uint64_t at) : memory_(&memory), at_(at) {}
  template <class T>
  T next() {
    at_ = (at_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    const T value = memory_->value<T>(at_);
    at_ += sizeof(T);
    return value;
  }

 private:
  const ThreadMemory* memory_;
  uint64_t at_;
};

// A kernel's format is no literal; its conversion fits `value`.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
template <class T>
void append(std::string& out, const std::string& specification, T value) {
  const int bytes = std::snprintf(nullptr, 0, specification.c_str(), value);
  if (bytes <= 0) return;
  const size_t begin = out.size();
  out.resize(begin + static_cast<size_t>(bytes) + 1);
  std::snprintf(out.data() + begin, static_cast<size_t>(bytes) + 1, specification.c_str(), value);
  out.pop_back();
}
#pragma GCC diagnostic pop

void append_argument(std::string& out, std::string specification, const ThreadMemory& memory,
                     Arguments& arguments) {
  const char conversion = specification.back();
  const bool is_long = specification.find_first_of("lzjt") != std::string::npos;
  std::erase_if(specification, [](char c) { return c == 'l' || c == 'z' || c == 'j' || c == 't'; });
  switch (conversion) {
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X':
      if (is_long) {
        specification.insert(specification.size() - 1, "ll");
        append(out, specification, arguments.next<long long>());
      } else {
        append(out, specification, arguments.next<int>());
      }
      break;
    case 'c':
      append(out, specification, arguments.next<int>());
      break;
    case 's': {
      const auto address = arguments.next<uint64_t>();
      append(out, specification, address == 0 ? "(null)" : memory.text(address).c_str());
      break;
    }
    case 'p':
      append(out, specification, reinterpret_cast<void*>(arguments.next<uint64_t>()));
      break;
    case 'a':
    case 'A':
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      append(out, specification, arguments.next<double>());
      break;
    default:  // as on a card: what is not known is printed as it stands
      out += specification;
  }
}

}  // namespace

std::string format(const ThreadMemory& memory, const std::string& format, uint64_t arguments_begin) {
  Arguments arguments(memory, arguments_begin);
  std::string out;
  for (size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      out += format[at++];
      continue;
    }
    if (at + 1 < format.size() && format[at + 1] == '%') {
      out += '%';
      at += 2;
      continue;
    }
    std::string specification = "%";
    ++at;
    while (at < format.size() &&
           std::string_view("-+ #0123456789.*hlzjt").find(format[at]) != std::string_view::npos) {
      if (format[at] == '*')
        specification += std::to_string(arguments.next<int>());
      else
        specification += format[at];
      ++at;
    }
    if (at == format.size()) return out + specification;
    specification += format[at++];
    append_argument(out, specification, memory, arguments);
  }
  return out;
}

}  // namespace tessera::cuda_sim
