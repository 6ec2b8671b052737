#include "tensor/composed/einsum_plan.h"

#include <algorithm>
#include <limits>

#include "tensor/error.h"

namespace tessera {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// The names of one operand or of the result; `extra` dimensions for "...".
std::string read_names(std::string_view equation, std::string_view term, int64_t extra) {
  std::string names;
  bool dots = false;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term.substr(i, 3) == "..." && !dots) {
      for (int64_t d = extra; d > 0; --d) names += static_cast<char>('0' + d);
      dots = true;
      i += 2;
      continue;
    }
    require<ValueError>(is_letter(term[i]), "einsum: expected letters, \"...\", \",\" and \"->\", got '",
                        term[i], "' in \"", equation, "\"");
    names += term[i];
  }
  return names;
}

int64_t count_letters(std::string_view term) {
  return std::count_if(term.begin(), term.end(), is_letter);
}

std::vector<std::string_view> split_operands(std::string_view text) {
  std::vector<std::string_view> terms;
  for (size_t comma; (comma = text.find(',')) != std::string_view::npos; text.remove_prefix(comma + 1))
    terms.push_back(text.substr(0, comma));
  terms.push_back(text);
  return terms;
}

/// Without "->": the dimensions of "...", then the letters that occur once.
std::string implied_output(const std::vector<std::string>& inputs, int64_t extra) {
  std::string all, output;
  for (const std::string& names : inputs) all += names;
  for (int64_t d = extra; d > 0; --d) output += static_cast<char>('0' + d);
  std::sort(all.begin(), all.end());
  for (const char name : all)
    if (is_letter(name) && std::count(all.begin(), all.end(), name) == 1) output += name;
  return output;
}

void check_output(std::string_view equation, const EinsumPlan& plan) {
  for (const char name : plan.output) {
    require<ValueError>(plan.extents.contains(name), "einsum: the result of \"", equation, "\" has '", name,
                        "', which no operand has");
    require<ValueError>(std::count(plan.output.begin(), plan.output.end(), name) == 1,
                        "einsum: the result of \"", equation, "\" has '", name, "' twice");
  }
}

void note_extents(std::string_view equation, const std::string& names, const Shape& shape, EinsumPlan& plan) {
  for (size_t d = 0; d < names.size(); ++d) {
    int64_t& extent = plan.extents.try_emplace(names[d], 1).first->second;
    const int64_t own = shape[static_cast<int64_t>(d)];
    const size_t first = names.find(names[d]);  // of a diagonal: equal extents
    require<ShapeError>(shape[static_cast<int64_t>(first)] == own, "einsum: '", names[d], "' of \"", equation,
                        "\" stands twice in one operand, with the extents ",
                        shape[static_cast<int64_t>(first)], " and ", own);
    require<ShapeError>(own == extent || own == 1 || extent == 1, "einsum: '", names[d], "' of \"", equation,
                        "\" has the extents ", extent, " and ", own);
    if (extent == 1) extent = own;
  }
}

}  // namespace

EinsumPlan plan_einsum(std::string_view equation, std::span<const Shape> shapes) {
  std::string compact(equation);
  std::erase(compact, ' ');
  const std::string_view text = compact;
  const size_t arrow = text.find("->");
  const std::vector<std::string_view> terms = split_operands(text.substr(0, arrow));
  require<ValueError>(terms.size() == shapes.size(), "einsum: \"", equation, "\" names ", terms.size(),
                      " operands, got ", shapes.size());
  EinsumPlan plan;
  int64_t widest = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const int64_t extra = shapes[i].ndim() - count_letters(terms[i]);
    plan.inputs.push_back(read_names(equation, terms[i], extra));
    const bool dots = terms[i].find("...") != std::string_view::npos;
    require<ShapeError>(dots ? extra >= 0 : extra == 0, "einsum: \"", std::string(terms[i]), "\" of \"",
                        equation, "\" does not name the dimensions of ", shapes[i]);
    note_extents(equation, plan.inputs[i], shapes[i], plan);
    widest = std::max(widest, extra);
  }
  plan.output = arrow == std::string_view::npos ? implied_output(plan.inputs, widest)
                                                : read_names(equation, text.substr(arrow + 2), widest);
  check_output(equation, plan);
  return plan;
}

EinsumNames sort_names(const std::string& a, const std::string& b, const std::string& kept) {
  EinsumNames names;
  for (const char name : a) {
    if (b.find(name) == std::string::npos)
      names.rows += name;
    else
      (kept.find(name) == std::string::npos ? names.inner : names.batch) += name;
  }
  for (const char name : b)
    if (a.find(name) == std::string::npos) names.columns += name;
  return names;
}

EinsumPair cheapest_pair(const EinsumPlan& plan, const std::vector<std::string>& names) {
  EinsumPair best{0, 1};
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < names.size(); ++i)
    for (size_t j = i + 1; j < names.size(); ++j) {
      double cost = 1;  // the extents of all names of both
      std::string all = names[i];
      for (const char name : names[j])
        if (names[i].find(name) == std::string::npos) all += name;
      for (const char name : all) cost *= static_cast<double>(plan.extent(name));
      if (cost < least) {
        least = cost;
        best = {i, j};
      }
    }
  return best;
}

}  // namespace tessera
