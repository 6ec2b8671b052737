// Every case of index_goldens.txt (see make_index_goldens.py): reading, writing and their gradients.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "autograd/debug/gradcheck.h"
#include "autograd/functions/elementwise/binary.h"
#include "tensor/index.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/threads/parallel.h"

using namespace tessera;

namespace {

using Values = std::vector<double>;

std::vector<std::string> split_at(const std::string& text, char separator) {
  std::vector<std::string> fields;
  std::string field;
  std::istringstream stream(text + separator);
  while (std::getline(stream, field, separator)) fields.push_back(field);
  return fields;
}

std::vector<int64_t> numbers(const std::string& text) {
  std::vector<int64_t> list;
  if (!text.empty())
    for (const std::string& field : split_at(text, ',')) list.push_back(std::stoll(field));
  return list;
}

Shape shape_of(const std::string& text) {
  return Shape(std::span<const int64_t>(numbers(text)));
}

Index parse_tensor(const std::string& text) {
  const size_t close = text.find(')');
  const Shape shape = shape_of(text.substr(2, close - 2));
  const std::string body = text.substr(close + 2, text.size() - close - 3);
  const Tensor tensor = Tensor::empty(shape, text[0] == 'm' ? boolean : text[0] == 'i' ? i64 : i32);
  const std::vector<int64_t> values = text[0] == 'm' ? std::vector<int64_t>() : numbers(body);
  for (int64_t i = 0; i < shape.numel(); ++i) {
    if (text[0] == 'm') tensor.data<bool>()[i] = body[i] == '1';
    if (text[0] == 'i') tensor.data<int64_t>()[i] = values[i];
    if (text[0] == 'j') tensor.data<int32_t>()[i] = static_cast<int32_t>(values[i]);
  }
  return tensor;
}

Index parse_index(const std::string& text) {
  if (text == "None") return None;
  if (text == "...") return Ellipsis;
  if (text.find('(') != std::string::npos) return parse_tensor(text);
  const std::vector<std::string> ends = split_at(text, ':');
  if (ends.size() == 1) return std::stoll(text);
  const auto end = [&](size_t i) {
    return ends[i].empty() ? std::optional<int64_t>() : std::optional<int64_t>(std::stoll(ends[i]));
  };
  return Slice(end(0), end(1), ends.size() == 3 ? std::stoll(ends[2]) : 1);
}

struct IndexCase {
  std::string line;
  Shape shape;
  std::vector<Index> indices;
  Shape value_shape, result_shape;
  std::vector<int64_t> positions;
  bool has_tensors = false, repeats = false;
};

std::vector<IndexCase> all_cases() {
  std::ifstream file(std::filesystem::path(TESSERA_TEST_DATA_DIR) / "autograd" / "index_goldens.txt");
  std::vector<IndexCase> cases;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> fields = split_at(line, '|');
    REQUIRE(fields.size() == 5);
    IndexCase c{line, shape_of(fields[0]), {}, shape_of(fields[2]), shape_of(fields[3]), numbers(fields[4])};
    if (!fields[1].empty())
      for (const std::string& index : split_at(fields[1], ';')) c.indices.push_back(parse_index(index));
    for (const Index& index : c.indices) {
      const bool is_tensor = index.kind() == Index::Kind::tensor;
      c.has_tensors =
          c.has_tensors || (is_tensor && (index.tensor().ndim() > 0 || index.tensor().dtype() == boolean));
    }
    c.repeats = std::set<int64_t>(c.positions.begin(), c.positions.end()).size() < c.positions.size();
    cases.push_back(std::move(c));
  }
  return cases;
}

/// first, first + step, ... in one of three layouts: contiguous, transposed, inside a larger tensor.
Tensor counted(const Shape& shape, double first, double step, size_t layout = 0) {
  const Tensor values = Tensor::empty(shape, f64);
  for (int64_t i = 0; i < values.numel(); ++i)
    values.data<double>()[i] = first + step * static_cast<double>(i);
  if (layout % 3 == 0 || shape.ndim() == 0) return values;
  if (layout % 3 == 1) {
    Shape reversed;
    for (int i = shape.ndim(); i-- > 0;) reversed.push_back(i);
    return values.permute(reversed).clone().permute(reversed);
  }
  Shape larger = shape;
  for (int64_t& extent : larger) extent += 2;
  Tensor inside = Tensor::zeros(larger, f64);
  for (int i = 0; i < shape.ndim(); ++i) inside = inside.narrow(i, 1, shape[i]);
  inside.copy_from(values);
  return inside;
}

Values values_of(const Tensor& x) {
  const Tensor t = ops::cast(x, f64).contiguous();
  return Values(t.data<double>(), t.data<double>() + t.numel());
}

/// For each element of the result, the element of the value that broadcasts to it.
std::vector<int64_t> broadcast_elements(const IndexCase& c) {
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < c.result_shape.numel(); ++i) {
    int64_t rest = i, element = 0, stride = 1;
    for (int d = 1; d <= c.result_shape.ndim(); ++d) {
      const int64_t extent = c.result_shape[c.result_shape.ndim() - d];
      if (d <= c.value_shape.ndim()) {
        const int64_t own = c.value_shape[c.value_shape.ndim() - d];
        if (own > 1) element += rest % extent * stride;
        stride *= own;
      }
      rest /= extent;
    }
    elements.push_back(element);
  }
  return elements;
}

Values as_doubles(const std::vector<int64_t>& list) {
  return Values(list.begin(), list.end());
}

void check_write(const IndexCase& c, size_t layout, bool accumulate) {
  const Tensor x = counted(c.shape, 0, 1, layout), value = counted(c.value_shape, 1000, 1, layout + 1);
  Values expected = values_of(x), base_gradient(x.numel(), 0), value_gradient(value.numel(), 0);
  const std::vector<int64_t> from = broadcast_elements(c);
  const Tensor dy = counted(c.shape, 2, 3);
  for (int64_t i = 0; i < x.numel(); ++i) base_gradient[i] = dy.data<double>()[i];
  for (size_t k = 0; k < c.positions.size(); ++k) {
    double& element = expected[c.positions[k]];
    element = static_cast<double>(1000 + from[k]) + (accumulate ? element : 0);
    value_gradient[from[k]] += dy.data<double>()[c.positions[k]];
    if (!accumulate) base_gradient[c.positions[k]] = 0;
  }
  const Variable base = Variable::leaf(x), source = Variable::leaf(value), h = base * 1.0;
  h.index_put_(c.indices, source, accumulate);
  CHECK(values_of(h.value()) == expected);
  h.backward(dy);
  CHECK(values_of(base.grad().value()) == base_gradient);
  CHECK(values_of(source.grad().value()) == value_gradient);

  const uint64_t version = x.version();
  x.index_put_(c.indices, value, accumulate);
  CHECK(values_of(x) == expected);
  CHECK(x.version() > version);
  x.index_put_(c.indices, -1);
  for (const int64_t position : c.positions) expected[position] = -1;
  CHECK(values_of(x) == expected);
}

void check_derivatives(const IndexCase& c) {
  const std::vector<Variable> inputs{Variable::leaf(counted(c.shape, -0.3, 0.1)),
                                     Variable::leaf(counted(c.value_shape, 0.7, -0.2))};
  const auto check = [](const CheckedFunction& function, std::span<const Variable> list) {
    const GradcheckResult once = gradcheck(function, list), twice = gradgradcheck(function, list);
    CHECK_MESSAGE(once.passed, once.message);
    CHECK_MESSAGE(twice.passed, twice.message);
  };
  check(
      [&](std::span<const Variable> v) {
        const Variable y = v[0].index(c.indices);
        return std::vector<Variable>{y * y};
      },
      {inputs.data(), 1});
  for (const bool accumulate : {false, true})
    if (accumulate || !c.repeats)
      check(
          [&](std::span<const Variable> v) {
            const Variable y = v[0] * 1.0;
            y.index_put_(c.indices, v[1] * v[1], accumulate);
            return std::vector<Variable>{y * y};
          },
          inputs);
}

}  // namespace

TEST_CASE("index goldens: reading, and its gradient is the output's gradient at the positions") {
  const std::vector<IndexCase> cases = all_cases();
  REQUIRE(cases.size() == 2000);
  for (size_t i = 0; i < cases.size(); ++i) {
    const IndexCase& c = cases[i];
    INFO(c.line);
    const Tensor x = counted(c.shape, 0, 1, i);
    const Tensor y = x.index(c.indices);
    CHECK(y.shape() == c.result_shape);
    CHECK(values_of(y) == as_doubles(c.positions));
    CHECK(y.shares_storage(x) == !c.has_tensors);
    for (const DType dtype : {f32, bf16, u8})
      CHECK(values_of(ops::cast(x, dtype).index(c.indices)) == as_doubles(c.positions));

    const Variable leaf = Variable::leaf(x), z = leaf.index(c.indices);
    CHECK(values_of(z.value()) == as_doubles(c.positions));
    const Tensor dy = counted(c.result_shape, 2, 3);
    Values gradient(x.numel(), 0);
    for (size_t k = 0; k < c.positions.size(); ++k) gradient[c.positions[k]] += dy.data<double>()[k];
    z.backward(dy);
    CHECK(values_of(leaf.grad().value()) == gradient);
  }
}

TEST_CASE("index goldens: writing a tensor or a number, adding, and their gradients") {
  const std::vector<IndexCase> cases = all_cases();
  for (size_t i = 0; i < cases.size(); ++i) {
    INFO(cases[i].line);
    check_write(cases[i], i, false);
    check_write(cases[i], i, true);
  }
}

TEST_CASE("index goldens: first and second derivatives by finite differences") {
  const std::vector<IndexCase> cases = all_cases();
  int checked = 0;
  for (size_t i = 0; i < cases.size(); i += 7) {
    const IndexCase& c = cases[i];
    if (c.positions.empty() || c.positions.size() > 12 || c.shape.numel() > 24) continue;
    INFO(c.line);
    check_derivatives(c);
    ++checked;
  }
  CHECK(checked > 50);
}
