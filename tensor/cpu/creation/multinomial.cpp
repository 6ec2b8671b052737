#include "tensor/cpu/creation/multinomial.h"

#include <cmath>

#include "tensor/error.h"

namespace tessera::kernels::cpu {
namespace {

void draw_row(double* weights, int64_t classes, int64_t row, const double* u, bool replacement, int64_t* out,
              int64_t count) {
  double total = 0;
  int64_t positive = 0;
  for (int64_t k = 0; k < classes; ++k) {
    require<ValueError>(weights[k] >= 0 && std::isfinite(weights[k]),
                        "multinomial: expected finite weights of at least 0, got ", weights[k], " in row ",
                        row);
    total += weights[k];
    positive += weights[k] > 0;
  }
  require<ValueError>(positive >= (replacement ? 1 : count), "multinomial: row ", row, " has ", positive,
                      " positive weights, too few to draw ", count,
                      replacement ? "" : " without replacement");
  for (int64_t i = 0; i < count; ++i) {
    const double target = u[i] * total;
    double sum = 0;
    int64_t chosen = -1;
    for (int64_t k = 0; k < classes && (chosen < 0 || sum <= target); ++k) {
      sum += weights[k];
      if (weights[k] > 0) chosen = k;
    }
    out[i] = chosen;
    if (replacement) continue;
    weights[chosen] = 0;
    total = 0;
    for (int64_t k = 0; k < classes; ++k) total += weights[k];
  }
}

}  // namespace

void multinomial(const Tensor& weights, const Tensor& u, bool replacement, const Tensor& out) {
  const int64_t classes = weights.size(-1), count = out.size(-1);
  for (int64_t row = 0; row < out.numel() / count; ++row)
    draw_row(weights.data<double>() + row * classes, classes, row, u.data<double>() + row * count,
             replacement, out.data<int64_t>() + row * count, count);
}

}  // namespace tessera::kernels::cpu
