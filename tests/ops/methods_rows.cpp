#include "tensor/functions.h"
#include "tests/ops/table.h"

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/in_place.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"

/// Operations that are called as methods, or that came with them: the family of goldens `methods`.
namespace tessera::test {
namespace {

using Function = std::function<Results(const CaseInputs&)>;

OpRow row(const char* name, Function call, const char* golden = "") {
  return {.name = name, .family = "methods", .call = std::move(call), .golden = golden};
}

/// A change in place of a copy of input 0, by a method.
template <class Change>
OpRow in_place(const char* name, Change change) {
  return row(name, [change](const CaseInputs& g) {
    const Variable x = g[0].clone();
    change(x, g);
    return x;
  });
}

template <class... Arguments>
using Method = const Variable& (TensorMethods<Variable>::*)(Arguments...) const;

OpRow in_place_unary(const char* name, Method<> method) {
  return in_place(name, [method](const Variable& x, const CaseInputs&) { (x.*method)(); });
}
OpRow in_place_binary(const char* name, Method<const Variable&> method) {
  return in_place(name, [method](const Variable& x, const CaseInputs& g) { (x.*method)(g[1]); });
}

using Along = ValuesAndIndices<Variable> (TensorMethods<Variable>::*)(int64_t, bool) const;
OpRow along_row(const char* name, Along method) {
  return row(name, [method](const CaseInputs& g) {
    const auto [values, indices] = (g[0].*method)(g.integer("axis"), g.flag("keepdim"));
    return std::vector<Variable>{values, indices};
  });
}

OpRow product_row(const char* name, Variable (*function)(const Variable&, const Variable&)) {
  return row(name, [function](const CaseInputs& g) { return function(g[0], g[1]); });
}

/// An op whose result no case records.
OpRow tested(const char* name, const char* file) {
  return {.name = name, .tested_in = file};
}

void append_in_place(std::vector<OpRow>& rows) {
  using M = TensorMethods<Variable>;
  const std::pair<const char*, Method<>> unary[] = {
      {"neg_", &M::neg_},     {"square_", &M::square_}, {"relu_", &M::relu_},
      {"exp_", &M::exp_},     {"log_", &M::log_},       {"sqrt_", &M::sqrt_},
      {"rsqrt_", &M::rsqrt_}, {"sin_", &M::sin_},       {"reciprocal_", &M::reciprocal_},
      {"cos_", &M::cos_},     {"tanh_", &M::tanh_},     {"sigmoid_", &M::sigmoid_},
      {"floor_", &M::floor_}, {"ceil_", &M::ceil_},     {"round_", &M::round_},
      {"abs_", &M::abs_}};
  for (const auto& [name, method] : unary) rows.push_back(in_place_unary(name, method));
  rows.push_back(in_place_binary("add_", &M::add_));
  rows.push_back(in_place_binary("sub_", &M::sub_));
  rows.push_back(in_place_binary("mul_", &M::mul_));
  rows.push_back(in_place_binary("div_", &M::div_));
  rows.push_back(in_place_binary("copy_", &M::copy_));
  rows.push_back(in_place("pow_", [](const Variable& x, const CaseInputs& g) {
    g.optional(1);  // the exponent 3
    x.pow_(3);
  }));
  rows.push_back(in_place("clamp_", [](const Variable& x, const CaseInputs&) { x.clamp_(0.75, 1.5); }));
  rows.push_back(row("fill_", [](const CaseInputs& g) { return g[0].clone().fill_(1.5) + g[0]; }));
  rows.push_back(row("zero_", [](const CaseInputs& g) { return g[0].clone().zero_() + g[0]; }));
}

void append_by_name(std::vector<OpRow>& rows) {
  rows.push_back(tested("amax", "tests/autograd/methods_test.cpp"));
  rows.push_back(tested("amin", "tests/autograd/methods_test.cpp"));
  rows.push_back(tested("stddev", "tests/autograd/methods_test.cpp"));
  rows.push_back(tested("contiguous", "tests/autograd/methods_test.cpp"));
  for (const char* name :
       {"empty", "zeros_like", "ones_like", "full_like", "empty_like", "tensor", "from_literal"})
    rows.push_back(tested(name, "tests/tensor/ops/creation/creation_test.cpp"));
  for (const char* name : {"fmod",     "logaddexp",         "nan_to_num", "sinh",  "cosh",
                           "cumprod",  "logcumsumexp",      "diff",       "addmm", "addmv",
                           "baddbmm",  "cosine_similarity", "normalize",  "trace", "diagonal",
                           "diag",     "movedim",           "unflatten",  "tile",  "repeat_interleave",
                           "meshgrid", "index_fill"})
    rows.push_back(tested(name, "tests/autograd/composed_test.cpp"));
  for (const char* name : {"rand", "randn", "randint", "randperm", "rand_like", "randn_like", "bernoulli"})
    rows.push_back(tested(name, "tests/tensor/ops/creation/generator_test.cpp"));
}

}  // namespace

std::vector<OpRow> methods_rows() {
  using M = TensorMethods<Variable>;
  std::vector<OpRow> rows = {
      along_row("max_along", &M::max),
      along_row("min_along", &M::min),
      along_row("median_along", &M::median),
      row("median", [](const CaseInputs& g) { return g[0].median(); }),
      product_row("mm", mm),
      product_row("bmm", bmm),
      product_row("mv", mv),
      product_row("dot", dot),
      product_row("outer", outer),
      row(
          "pow", [](const CaseInputs& g) { return pow(g.real("base"), g[0]); }, "pow_of_number"),
      row(
          "maximum", [](const CaseInputs& g) { return max(g[0], g.real("n")); }, "maximum_number"),
      row(
          "minimum", [](const CaseInputs& g) { return min(g.real("n"), g[0]); }, "minimum_number"),
      row("clamp_min", [](const CaseInputs& g) { return g[0].clamp_min(g.real("n")); }),
      row("clamp_max", [](const CaseInputs& g) { return g[0].clamp_max(g.real("n")); }),
      row("unbind", [](const CaseInputs& g) { return unbind(g[0], g[0].dim() == 2 ? 0 : -1); }),
      row("t", [](const CaseInputs& g) { return g[0].t(); }),
      row(
          "squeeze", [](const CaseInputs& g) { return g[0].squeeze(); }, "squeeze_all"),
      row("clone", [](const CaseInputs& g) { return g[0].clone(); }),
      row("eye",
          [](const CaseInputs& g) {
            const int64_t n = g.integer("n"), m = g.integer("m");
            return n == m ? eye(n, f64) : eye(n, m, f64);
          }),
  };
  // One case for each place of the number.
  OpRow then = row(
      "where", [](const CaseInputs& g) { return where(g.tensor(1), g.real("n"), g[0]); }, "where_number");
  OpRow otherwise = row(
      "where", [](const CaseInputs& g) { return g[0].where(g.tensor(1), g.real("n")); }, "where_number");
  then.except = {{"else", "the number is the second operand"}};
  otherwise.except = {{"then", "the number is the first operand"}};
  rows.push_back(then);
  rows.push_back(otherwise);
  append_in_place(rows);
  append_by_name(rows);
  return rows;
}

}  // namespace tessera::test
