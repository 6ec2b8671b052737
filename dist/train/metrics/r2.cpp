#include "dist/train/metrics/r2.h"

#include <algorithm>
#include <limits>

#include "dist/train/metrics/metric_input.h"

namespace tessera::training {

const char* name_of(OutputAverage average) {
  constexpr const char* names[] = {"uniform", "variance_weighted", "none"};
  return names[static_cast<int>(average)];
}

R2::R2(const Options& options)
    : Metric("r2", text("outputs ", options.outputs, ", average ", name_of(options.average))),
      options_(options),
      samples_(add_state("samples", dist::Reduction::sum, i64)),
      weight_(add_state("weight", dist::Reduction::sum)),
      sum_(add_output_sums("sum", dist::Reduction::sum)),
      squares_(add_output_sums("squares", dist::Reduction::sum)),
      residual_(add_output_sums("residual", dist::Reduction::sum)),
      smallest_(add_output_sums("smallest", dist::Reduction::min)),
      largest_(add_output_sums("largest", dist::Reduction::max)) {}

MetricState& R2::add_output_sums(const char* state, dist::Reduction reduction) {
  require<ValueError>(options_.outputs >= 1, "metric 'r2': expected at least 1 output, got ",
                      options_.outputs);
  return add_state(state, reduction, f64, {options_.outputs});
}

void R2::update(const Variable& predictions, const Variable& targets, const Tensor& weights) {
  const Tensor p = doubles_on_cpu(name(), "predictions", predictions.value());
  const Tensor t = doubles_on_cpu(name(), "targets", targets.value());
  check_same_shape(name(), p, t);
  const int64_t outputs = options_.outputs;
  Shape samples = t.shape();
  if (outputs > 1) {
    require<ShapeError>(t.ndim() > 0 && t.size(-1) == outputs, "metric '", name(), "': expected rows of ",
                        outputs, " outputs, got ", describe(targets.value()));
    samples.erase(samples.ndim() - 1);
  }
  const SampleWeights weight_of(name(), weights, samples);
  double* const sum = sum_.value.data<double>();
  double* const squares = squares_.value.data<double>();
  double* const residual = residual_.value.data<double>();
  double* const smallest = smallest_.value.data<double>();
  double* const largest = largest_.value.data<double>();
  weight_of.for_each([&](int64_t i, double weight) {
    *samples_.value.data<int64_t>() += 1;
    *weight_.value.data<double>() += weight;
    for (int64_t k = 0; k < outputs; ++k) {
      const double target = t.data<double>()[i * outputs + k];
      const double error = target - p.data<double>()[i * outputs + k];
      sum[k] += weight * target;
      squares[k] += weight * target * target;
      residual[k] += weight * error * error;
      smallest[k] = std::min(smallest[k], target);
      largest[k] = std::max(largest[k], target);
    }
  });
}

Tensor R2::value() const {
  const int64_t outputs = options_.outputs;
  const Tensor values = Tensor::empty({outputs}, f64);
  const bool defined = samples_.value.item_i64() >= 2;
  double sum = 0, weighted = 0, variances = 0;
  for (int64_t k = 0; k < outputs; ++k) {
    const auto of = [k](const MetricState& state) { return state.value.data<double>()[k]; };
    const double total = of(sum_);
    double variance = of(squares_) - total * total / weight_.value.item();
    // Below 0 it is rounding alone.
    const bool constant = of(smallest_) == of(largest_) || variance <= 0;
    if (constant) variance = 0;
    double value = 1 - of(residual_) / variance;
    if (constant) value = of(residual_) == 0 ? 1.0 : 0.0;
    if (!defined) value = std::numeric_limits<double>::quiet_NaN();
    values.data<double>()[k] = value;
    sum += value;
    weighted += variance * value;
    variances += variance;
  }
  if (options_.average == OutputAverage::none) return values;
  // With constant targets alone there are no variances to weight by: scikit-learn takes the mean then.
  if (options_.average == OutputAverage::uniform || variances == 0)
    return Tensor::scalar(sum / static_cast<double>(outputs));
  return Tensor::scalar(weighted / variances);
}

}  // namespace tessera::training
