#include "tests/optim/golden_runs.h"

#include <json/reader.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "tensor/io/safetensors.h"

namespace tessera::test {

struct Goldens::Contents {
  io::SafetensorsFile file;
};

Goldens::Goldens(const std::string& file)
    : contents_(
          new Contents{io::SafetensorsFile(std::string(TESSERA_TEST_DATA_DIR) + "/optim/goldens/" + file)}) {}
Goldens::~Goldens() = default;

std::vector<std::string> Goldens::cases() const {
  std::vector<std::string> names;
  for (const auto& [name, json] : contents_->file.metadata()) names.push_back(name);
  return names;
}

Json::Value Goldens::options(const std::string& name) const {
  Json::Value value;
  std::istringstream(contents_->file.metadata().at(name)) >> value;
  return value;
}

Tensor Goldens::tensor(const std::string& name) const {
  return contents_->file.read(name);
}

namespace {

Tensor cast(const Tensor& x, DType dtype) {
  if (dtype == f64) return x.clone();
  Tensor y = Tensor::empty(x.shape(), f32);
  for (int64_t i = 0; i < x.numel(); ++i) y.data<float>()[i] = static_cast<float>(x.data<double>()[i]);
  return y;
}

double element(const Tensor& x, int64_t i) {
  return x.dtype() == f64 ? x.data<double>()[i] : static_cast<double>(x.data<float>()[i]);
}

void set_gradient(const Variable& variable, const Tensor& gradient) {
  variable.set_grad(Variable(cast(gradient, variable.dtype())));
}

}  // namespace

GoldenProblem::GoldenProblem(const Goldens& goldens, DType dtype)
    : a(Variable::parameter(cast(goldens.tensor("problem/start_a"), dtype), true, "a")),
      b(Variable::parameter(cast(goldens.tensor("problem/start_b"), dtype), true, "b")),
      target_a_(goldens.tensor("problem/target_a")),
      hessian_a_(goldens.tensor("problem/hessian_a")),
      target_b_(goldens.tensor("problem/target_b")),
      curvature_b_(goldens.tensor("problem/curvature_b")),
      wobble_(goldens.tensor("problem/wobble")) {
  list_a.push_back({"a", a});
  list_b.push_back({"b", b});
}

void GoldenProblem::set_gradients(int64_t t) const {
  const double wobble = element(wobble_, t);
  Tensor grad_a = Tensor::zeros({7}, f64), grad_b = Tensor::zeros({3, 4}, f64);
  for (int64_t i = 0; i < 7; ++i)
    for (int64_t j = 0; j < 7; ++j)
      grad_a.data<double>()[i] +=
          wobble * element(hessian_a_, 7 * i + j) * (element(a.value(), j) - element(target_a_, j));
  for (int64_t i = 0; i < 12; ++i)
    grad_b.data<double>()[i] =
        wobble * element(curvature_b_, i) * (element(b.value(), i) - element(target_b_, i));
  set_gradient(a, grad_a);
  set_gradient(b, grad_b);
}

double relative_difference(const Tensor& x, const Tensor& y) {
  require<ShapeError>(x.shape() == y.shape(), "relative_difference: ", x.shape(), " against ", y.shape());
  double largest = 0.0, worst = 0.0;
  for (int64_t i = 0; i < y.numel(); ++i) largest = std::max(largest, std::abs(element(y, i)));
  for (int64_t i = 0; i < y.numel(); ++i) {
    const double difference = std::abs(element(x, i) - element(y, i));
    const double scale = std::max(std::abs(element(y, i)), 1e-3 * largest);
    if (!(difference == 0.0)) worst = std::max(worst, std::isnan(difference) ? INFINITY : difference / scale);
  }
  return worst;
}

bool same_bits(const Tensor& x, const Tensor& y) {
  return x.dtype() == y.dtype() && x.shape() == y.shape() &&
         (x.numel() == 0 || std::memcmp(x.raw_data(), y.raw_data(), x.nbytes()) == 0);
}

}  // namespace tessera::test
