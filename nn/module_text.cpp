// A module as text: the name of its type, and its tree.

#include <cxxabi.h>

#include <cstdlib>
#include <ostream>
#include <typeinfo>

#include "nn/module.h"

namespace tessera::nn {
namespace {

/// "(anonymous namespace)::Net" is "Net", "tessera::nn::ModuleList<Net>" is "ModuleList".
std::string unqualified(const std::string& type) {
  size_t begin = 0, end = type.size();
  int depth = 0;
  for (size_t i = 0; i < type.size(); ++i) {
    const char c = type[i];
    if (c == '(' || c == '<' || c == '{') {
      if (c == '<' && depth == 0) end = std::min(end, i);
      ++depth;
    } else if (c == ')' || c == '>' || c == '}') {
      --depth;
    } else if (c == ':' && depth == 0) {
      begin = i + 1;
      end = type.size();
    }
  }
  return type.substr(begin, end - begin);
}

/// `block` with every line but the first indented by two spaces.
std::string indented(const std::string& block) {
  std::string result;
  for (const char c : block) {
    result += c;
    if (c == '\n') result += "  ";
  }
  return result;
}

/// One line of the tree: a child, or several equal neighbours.
struct Line {
  std::string first, last;  // names
  int64_t count;
  std::string text;
};

}  // namespace

std::string Module::kind() const {
  const char* mangled = typeid(*this).name();
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> type(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                    std::free);
  return type ? unqualified(type.get()) : mangled;
}

std::string to_string(const Module& module) {
  const std::string head = module.kind() + "(", options = module.describe_options();
  if (module.child_entries().empty()) return head + options + ")";
  std::vector<Line> lines;
  for (const Module::Child& child : module.child_entries()) {
    const std::string tree = to_string(*child.module);
    if (module.is_container() && !lines.empty() && lines.back().text == tree) {
      lines.back().last = child.name;
      ++lines.back().count;
    } else {
      lines.push_back({child.name, child.name, 1, tree});
    }
  }
  std::string result = head + (options.empty() ? "" : "\n  " + options);
  for (const Line& line : lines)
    result +=
        "\n  (" +
        (line.count == 1 ? line.first + "): " : text(line.first, "-", line.last, "): ", line.count, " x ")) +
        indented(line.text);
  return result + "\n)";
}

std::ostream& operator<<(std::ostream& out, const Module& module) {
  return out << to_string(module);
}

}  // namespace tessera::nn
