#include "nn/layers/bilinear.h"

#include <cmath>

#include "autograd/functions/layers/bilinear.h"

namespace tessera::nn {
namespace {

BilinearOptions checked(BilinearOptions o) {
  require<ConfigError>(o.in1 >= 1 && o.in2 >= 1 && o.out >= 1,
                       "nn::Bilinear: expected at least 1 feature of each input and of the result, got ",
                       o.in1, ", ", o.in2, " and ", o.out);
  return o;
}

}  // namespace

init::Initializer BilinearOptions::initializer(const init::Initializer& given) const {
  if (given.defined()) return given;
  const double bound = 1 / std::sqrt(static_cast<double>(in1));
  return init::uniform(-bound, bound);
}

Bilinear::Bilinear(Options options) : Layer(checked(std::move(options))) {}

std::string Bilinear::describe_options() const {
  return text(o.in1, " x ", o.in2, " -> ", o.out, o.bias ? "" : ", no bias");
}

Variable Bilinear::forward(const Variable& x1, const Variable& x2) const {
  const bool fits = x1.ndim() >= 1 && x2.ndim() >= 1 && x1.size(-1) == o.in1 && x2.size(-1) == o.in2;
  require<ShapeError>(fits, "nn::Bilinear '", full_name(), "': expected inputs of ", o.in1, " and ", o.in2,
                      " features, got ", x1, " and ", x2);
  return bilinear(x1, x2, weight, bias ? *bias : Variable());
}

}  // namespace tessera::nn
