// Each row of .github/TORCH_FUNCTIONS.md: its code, with Tensors and with Variables as operands, gives what
// PyTorch gives (golden.txt, see make_golden.py).
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "autograd/functional/derivatives.h"
#include "autograd/functional/transforms.h"
#include "autograd/functions/composed.h"
#include "autograd/functions/composed/arrangements.h"
#include "autograd/functions/composed/places.h"
#include "autograd/functions/composed/statistics.h"
#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/in_place.h"
#include "autograd/functions/elementwise/special_function.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/images/batch_norm.h"
#include "autograd/functions/images/channel_norms.h"
#include "autograd/functions/images/interpolation.h"
#include "autograd/functions/images/pooling.h"
#include "autograd/functions/images/rearranging.h"
#include "autograd/functions/indexing/advanced_indexing.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/indexing/sorting.h"
#include "autograd/functions/layers/attention.h"
#include "autograd/functions/layers/convolution.h"
#include "autograd/functions/layers/dropout.h"
#include "autograd/functions/layers/loss.h"
#include "autograd/functions/layers/normalization.h"
#include "autograd/functions/layers/softmax.h"
#include "autograd/functions/linalg/distance.h"
#include "autograd/functions/linalg/factorizations.h"
#include "autograd/functions/linalg/least_squares.h"
#include "autograd/functions/linalg/solves.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/nondifferentiable.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "autograd/grad_mode.h"
#include "tensor/composed/distances.h"
#include "tensor/composed/elementwise/special.h"
#include "tensor/composed/indexing/places.h"
#include "tensor/composed/linalg.h"
#include "tensor/composed/shaping/arrangements.h"
#include "tensor/composed/statistics/statistics.h"
#include "tensor/functions.h"
#include "tensor/index.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/ops/creation/literal.h"

using namespace tessera;

namespace {

/// A result as a list of tensors, as make_golden.py has it.
using Parts = std::vector<Tensor>;

Parts parts_of(const Tensor& x) {
  return {x};
}
Parts parts_of(const Variable& x) {
  return {x.value()};
}
template <class X>
Parts parts_of(const std::vector<X>& list) {
  Parts parts;
  for (const X& x : list) parts.push_back(parts_of(x)[0]);
  return parts;
}
template <class X>
Parts parts_of(const ValuesAndIndices<X>& both) {
  return {parts_of(both.values)[0], both.indices};
}
template <class X>
Parts parts_of(const Extremes<X>& both) {
  return {parts_of(both.min)[0], parts_of(both.max)[0]};
}
Parts parts_of(const Shape& shape) {
  return {Tensor::from(std::vector<int64_t>(shape.begin(), shape.end()))};
}
template <class T>
requires std::is_arithmetic_v<T> Parts parts_of(T number) {
  if constexpr (std::same_as<T, bool>) return {tensor(number)};
  if constexpr (std::integral<T>) return {tensor(static_cast<int64_t>(number))};
  return {tensor(static_cast<double>(number))};
}
/// What has no values: a dtype, a device, a guard.
template <class Other>
requires(!std::is_arithmetic_v<Other>) Parts parts_of(const Other&) {
  return {};
}

/// What one row of golden.txt says of a part.
struct Expected {
  std::string dtype;
  Shape shape;
  std::vector<double> values;
};
struct Row {
  bool random = false;
  std::vector<Expected> parts;
};

double number(const std::string& word) {
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (word == "inf") return std::numeric_limits<double>::infinity();
  if (word == "-inf") return -std::numeric_limits<double>::infinity();
  return std::stod(word);
}

Row read_row(const std::string& text) {
  Row row;
  std::istringstream words(text);
  std::string word;
  while (words >> word) {
    if (word == "random") {
      row.random = true;
    } else if (word == "f32" || word == "f64" || word == "i64" || word == "bool") {
      row.parts.push_back({word, {}, {}});
      words >> word;  // the extents and a colon
      std::istringstream extents(word.substr(0, word.size() - 1));
      for (std::string extent; std::getline(extents, extent, ',');)
        row.parts.back().shape.push_back(std::stoll(extent));
    } else if (word != "/") {
      row.parts.back().values.push_back(number(word));
    }
  }
  return row;
}

const std::map<std::string, Row>& golden() {
  static const std::map<std::string, Row> rows = [] {
    std::map<std::string, Row> result;
    std::ifstream file(TORCH_GOLDEN);
    for (std::string line; std::getline(file, line);) {
      const size_t tab = line.find('\t');
      result[line.substr(0, tab)] = read_row(line.substr(tab + 1));
    }
    return result;
  }();
  return rows;
}

bool near(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= 2e-6 + 2e-5 * std::abs(b);
}

void compare(const char* torch, const Parts& parts) {
  const auto found = golden().find(torch);
  REQUIRE_MESSAGE(found != golden().end(), "golden.txt lacks the row; run make_golden.py");
  const Row& row = found->second;
  REQUIRE(parts.size() == row.parts.size());
  for (size_t k = 0; k < parts.size(); ++k) {
    const Expected& expected = row.parts[k];
    CHECK(to_string(parts[k].shape()) == to_string(expected.shape));
    if (expected.shape.ndim() > 0) CHECK(to_string(parts[k].dtype()) == expected.dtype);
    if (row.random || parts[k].numel() != std::ssize(expected.values)) continue;
    const Tensor values = ops::cast(parts[k], f64).contiguous();
    for (int64_t n = 0; n < values.numel(); ++n) {
      CAPTURE(n);
      CAPTURE(values.data<double>()[n]);
      CAPTURE(expected.values[n]);
      CHECK(near(values.data<double>()[n], expected.values[n]));
    }
  }
}

template <class Function>
void check(const char* torch, int line, const Function& function) {
  CAPTURE(std::string(torch));
  CAPTURE(line);
  if constexpr (std::is_void_v<decltype(function())>) {
    function();
    compare(torch, {});
  } else {
    compare(torch, parts_of(function()));
  }
}

/// The operands of the rows, as in make_golden.py, of type X.
template <class X>
struct Rows {
  const X x = tensor({{0.5, -1.5, 2.0}, {3.0, -0.25, 1.0}});
  const X y = tensor({{1.5, 0.5, -2.0}, {0.25, 4.0, -1.0}});
  const X p = tensor({{0.5, 1.5, 2.0}, {3.0, 0.25, 1.0}});
  const X u = tensor({{0.1, 0.9, 0.4}, {0.7, 0.3, 0.6}});
  const X v = tensor({1.0, -2.0, 0.5});
  const X w = tensor({0.3, 0.2, -1.0});
  const X m = tensor({{2.0, -1.0, 0.5}, {0.25, 1.5, -2.0}, {1.0, 0.0, 3.0}});
  const X b = arange(12.0).view({2, 2, 3}) * 0.25 - 1;
  const X c = arange(12.0).view({2, 3, 2}) * -0.5 + 2;
  const X odd = tensor({1.0, double(NAN), double(INFINITY), -double(INFINITY)});
  const Tensor i = tensor({{5, -3, 7}, {0, 2, -8}}), j = tensor({{2, 3, -4}, {1, 5, 3}});
  const Tensor mask = tensor({{true, false, true}, {false, false, true}});
  const Tensor pick = tensor({2, 0}), grid = tensor({{2, 0}, {1, 2}});
  const Tensor ids = tensor({1, 3, 1, 0}), classes = tensor({0, 0});
  const Variable leaf = Variable::leaf(tensor({0.5, -1.0, 2.0}));

#define TORCH_ROW(line, torch, ...)           \
  void row_##line() const {                   \
    check(torch, line, [&] { __VA_ARGS__; }); \
  }
#include "torch_rows.inc"
#undef TORCH_ROW

  void run() const {
#define TORCH_ROW(line, torch, ...) row_##line();
#include "torch_rows.inc"
#undef TORCH_ROW
  }
};

}  // namespace

TEST_CASE("functions of PyTorch: every row, with Tensors") {
  Rows<Tensor>().run();
}

TEST_CASE("functions of PyTorch: every row, with Variables") {
  Rows<Variable>().run();
}

TEST_CASE("functions of PyTorch: golden.txt has no rows that the table lacks") {
  int rows = 0;
#define TORCH_ROW(line, torch, ...) rows += static_cast<int>(golden().contains(torch));
#include "torch_rows.inc"
#undef TORCH_ROW
  CHECK(rows == static_cast<int>(golden().size()));
  CHECK(rows >= 150);
}
