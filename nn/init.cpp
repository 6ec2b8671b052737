#include "nn/init.h"

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "tensor/error.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/random.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/random/random_context.h"

namespace tessera::init {
namespace {

// These fills write every dtype for which they are defined, half types rounded.
constexpr Initializer::FillDType own_dtype = Initializer::FillDType::own_dtype;

Initializer normal_of(std::string description, double mean, double deviation) {
  return {std::move(description),
          [=](const Tensor& out, uint64_t key, const Shape&, int64_t first) {
            ops::fill_normal(out, key, first, mean, deviation);
          },
          false, own_dtype};
}

/// `value` as a number of an integer dtype. Throws ValueError for one that is not whole.
Scalar whole(double value, DType dtype) {
  require<ValueError>(value == std::floor(value) && std::abs(value) <= 0x1p53,
                      "init::constant: expected a whole ", "number for ", dtype, ", got ", value);
  return static_cast<int64_t>(value);
}

Initializer filled_with(double value, std::string description) {
  return {std::move(description),
          [value](const Tensor& out, uint64_t, const Shape&, int64_t) {
            const DType dtype = out.dtype();
            ops::fill_(out, is_floating(dtype) ? Scalar(value)
                            : dtype == boolean ? Scalar(value != 0)
                                               : whole(value, dtype));
          },
          false, own_dtype};
}

struct Fans {
  double in, out;
};

Fans fans_of(const Shape& shape, const char* name) {
  require<ShapeError>(shape.ndim() >= 2, "init::", name, ": fans need two dimensions or more, got ", shape);
  double receptive = 1;
  for (int i = 2; i < shape.ndim(); ++i) receptive *= static_cast<double>(shape[i]);
  return {static_cast<double>(shape[1]) * receptive, static_cast<double>(shape[0]) * receptive};
}

double glorot_variance(Fans fans) {
  return 2 / (fans.in + fans.out);
}
double he_variance(Fans fans) {
  return 2 / fans.in;
}

/// A distribution with a scale that depends on the full shape.
Initializer by_fans(const char* name, double (*variance)(Fans), double gain, bool uniform) {
  return {gain == 1 ? std::string(name) : text(name, "(gain ", gain, ")"),
          [=](const Tensor& out, uint64_t key, const Shape& full, int64_t first) {
            const double deviation = gain * std::sqrt(variance(fans_of(full, name)));
            const double bound = deviation * std::sqrt(3.0);
            if (uniform)
              ops::fill_uniform(out, key, first, -bound, bound);
            else
              ops::fill_normal(out, key, first, 0, deviation);
          },
          false, own_dtype};
}

Initializer kaiming(const char* name, double slope, bool uniform) {
  require<ValueError>(std::isfinite(slope), "init::", name, ": expected a finite slope, got ", slope);
  return by_fans(name, he_variance, 1 / std::sqrt(1 + slope * slope), uniform);
}

/// Modified Gram-Schmidt on the rows of a (rows, columns) matrix with rows <= columns, twice for
/// orthogonality to rounding.
void orthonormalize_rows(std::vector<double>& a, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) {
    double* x = a.data() + i * columns;
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t j = 0; j < i; ++j) {
        const double* y = a.data() + j * columns;
        double dot = 0;
        for (int64_t c = 0; c < columns; ++c) dot += x[c] * y[c];
        for (int64_t c = 0; c < columns; ++c) x[c] -= dot * y[c];
      }
    double norm = 0;
    for (int64_t c = 0; c < columns; ++c) norm += x[c] * x[c];
    norm = std::sqrt(norm);
    for (int64_t c = 0; c < columns; ++c) x[c] /= norm;
  }
}

}  // namespace

void Initializer::fill(const Tensor& out, uint64_t key, const Shape& full_shape, int64_t first_index) const {
  require<ConfigError>(defined(), "init: the initializer is undefined");
  require<ShapeError>(first_index >= 0 && first_index + out.numel() <= full_shape.numel(),
                      "init::", description_, ": elements [", first_index, ", ", first_index + out.numel(),
                      ") are outside the shape ", full_shape);
  require<ShapeError>(!needs_full_tensor_ || out.numel() == full_shape.numel(), "init::", description_,
                      ": expected the full tensor of shape ", full_shape, ", got ", out.numel(), " elements");
  if (out.is_meta() || out.numel() == 0) return;
  if (fill_dtype_ == FillDType::own_dtype || (out.dtype() == f32 && out.is_contiguous()))
    return fill_(out, key, full_shape, first_index);
  const Tensor values = Tensor::empty(out.shape(), f32, out.device());
  fill_(values, key, full_shape, first_index);
  out.copy_from(ops::cast(values, out.dtype()).to(out.device()));
}

namespace {

/// `full_name`, and for a parameter of a parametrisation (nn/parametrize/parametrization.h), such as
/// "fc.parametrizations.weight.original0", that of the parametrised one: "fc.weight".
std::string name_of_initial_values(const std::string& full_name) {
  const std::string marker = "parametrizations.";
  const size_t begin = full_name.find(marker);
  if (begin == std::string::npos || (begin > 0 && full_name[begin - 1] != '.')) return full_name;
  const size_t name = begin + marker.size(), end = full_name.find('.', name);
  if (end == std::string::npos) return full_name;
  return full_name.substr(0, begin) + full_name.substr(name, end - name);
}

}  // namespace

uint64_t parameter_key(uint64_t seed, const std::string& full_name) {
  return random_key(seed, name_of_initial_values(full_name), 0);
}

Initializer zeros() {
  return filled_with(0, "zeros");
}
Initializer ones() {
  return filled_with(1, "ones");
}
Initializer constant(double value) {
  return filled_with(value, text("constant(", value, ")"));
}

Initializer normal(double deviation, double mean) {
  return normal_of(text("normal(", mean, ", ", deviation, ")"), mean, deviation);
}

Initializer uniform(double low, double high) {
  require<ValueError>(low <= high, "init::uniform: expected low <= high, got ", low, " and ", high);
  return {text("uniform(", low, ", ", high, ")"),
          [=](const Tensor& out, uint64_t key, const Shape&, int64_t first) {
            ops::fill_uniform(out, key, first, low, high);
          },
          false, own_dtype};
}

Initializer truncated_normal(double deviation, double mean, double cut) {
  require<ValueError>(cut > 0, "init::truncated_normal: expected a cut above 0, got ", cut);
  return {text("truncated_normal(", mean, ", ", deviation, ", ", cut, ")"),
          [=](const Tensor& out, uint64_t key, const Shape&, int64_t first) {
            ops::fill_truncated_normal(out, key, first, mean, deviation, -cut, cut);
          },
          false, own_dtype};
}

Initializer xavier_uniform(double gain) {
  return by_fans("xavier_uniform", glorot_variance, gain, true);
}
Initializer xavier_normal(double gain) {
  return by_fans("xavier_normal", glorot_variance, gain, false);
}
Initializer kaiming_uniform(double negative_slope) {
  return kaiming("kaiming_uniform", negative_slope, true);
}
Initializer kaiming_normal(double negative_slope) {
  return kaiming("kaiming_normal", negative_slope, false);
}

namespace {

/// `x` as element `index` of a tensor of an integer or bool dtype.
template <class T>
T exact_integer(double x, int64_t index) {
  const double limit = std::ldexp(1.0, std::numeric_limits<T>::digits);
  require<ValueError>(x == std::floor(x) && x < limit && x >= (std::is_signed_v<T> ? -limit : 0.0),
                      "init::elementwise: element ", index, " is ", x, ", which ", dtype_of<T>,
                      " cannot represent");
  return static_cast<T>(x);
}

template <class T>
void fill_elements(const Tensor& out, const Element& element, const Shape& full, int64_t first) {
  T* to = out.data<T>();
  for (int64_t i = 0; i < out.numel(); ++i) {
    const double x = element(first + i, full);
    if constexpr (std::is_integral_v<T>)
      to[i] = exact_integer<T>(x, first + i);
    else
      to[i] = static_cast<T>(x);
  }
}

}  // namespace

Initializer elementwise(Element element, std::string description) {
  require<ValueError>(static_cast<bool>(element), "init::elementwise: expected a function, got none");
  return {std::move(description),
          [element = std::move(element)](const Tensor& out, uint64_t, const Shape& full, int64_t first) {
            const bool half = size_of(out.dtype()) == 2 && is_floating(out.dtype());
            const Tensor values = Tensor::empty(out.shape(), half ? f32 : out.dtype());
            switch (values.dtype()) {
              case f64:
                fill_elements<double>(values, element, full, first);
                break;
              case i64:
                fill_elements<int64_t>(values, element, full, first);
                break;
              case u8:
                fill_elements<uint8_t>(values, element, full, first);
                break;
              case i32:
                fill_elements<int32_t>(values, element, full, first);
                break;
              case boolean:
                fill_elements<bool>(values, element, full, first);
                break;
              default:
                fill_elements<float>(values, element, full, first);
            }
            out.copy_from(ops::cast(values, out.dtype()).to(out.device()));
          },
          false, own_dtype};
}

Initializer orthogonal(double gain) {
  return {gain == 1 ? std::string("orthogonal") : text("orthogonal(gain ", gain, ")"),
          [gain](const Tensor& out, uint64_t key, const Shape& full, int64_t) {
            const Fans fans = fans_of(full, "orthogonal");
            const int64_t rows = static_cast<int64_t>(full[0]), columns = static_cast<int64_t>(fans.in);
            const bool tall = rows > columns;
            const Tensor values = Tensor::empty({rows * columns}, f64);
            ops::fill_normal(values, key);
            const double* z = values.data<double>();
            std::vector<double> a(static_cast<size_t>(rows * columns));
            for (int64_t i = 0; i < rows * columns; ++i)
              a[tall ? (i % columns) * rows + i / columns : i] = z[i];  // tall: the transpose has few rows
            orthonormalize_rows(a, tall ? columns : rows, tall ? rows : columns);
            double* result = values.data<double>();
            for (int64_t i = 0; i < rows * columns; ++i)
              result[i] = gain * a[tall ? (i % columns) * rows + i / columns : i];
            out.copy_from(ops::cast(values.view(full), out.dtype()).to(out.device()));
          },
          true, own_dtype};
}

}  // namespace tessera::init
