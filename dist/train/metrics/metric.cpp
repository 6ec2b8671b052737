#include "dist/train/metrics/metric.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "dist/train/metrics/metric_names.h"
#include "dist/train/metrics/state_reduction.h"

namespace tessera::training {
namespace {

template <class T>
T value_of_nothing(dist::Reduction reduction) {
  using Limits = std::numeric_limits<T>;
  if (reduction == dist::Reduction::sum) return 0;
  const bool smallest = reduction == dist::Reduction::min;
  if constexpr (Limits::has_infinity) return smallest ? Limits::infinity() : -Limits::infinity();
  return smallest ? Limits::max() : Limits::lowest();
}

void reset_state(const MetricState& state) {
  const int64_t n = state.value.numel();
  if (state.value.dtype() == i64)
    std::fill_n(state.value.data<int64_t>(), n, value_of_nothing<int64_t>(state.reduction));
  else
    std::fill_n(state.value.data<double>(), n, value_of_nothing<double>(state.reduction));
  state.value.bump_version();
}

}  // namespace

Metric::Metric(std::string kind, std::string options)
    : kind_(std::move(kind)), options_(std::move(options)), name_(kind_) {
  check_metric_name("Metric", kind_);
  require<ValueError>(!has_control_character(options_), "Metric '", kind_,
                      "': expected options without control characters");
}

Metric::~Metric() = default;

MetricState& Metric::add_state(const std::string& name, dist::Reduction reduction, DType dtype,
                               const Shape& shape) {
  check_metric_name(text("metric '", name_, "': state"), name);
  for (const MetricState& state : states_)
    require<ValueError>(state.name != name, "metric '", name_, "': it has a state '", name, "' already");
  require<DTypeError>(dtype == f64 || dtype == i64, "metric '", name_, "': expected f64 or i64 for state '",
                      name, "', got ", dtype);
  require<ValueError>(reduction != dist::Reduction::avg, "metric '", name_,
                      "': expected sum, min or max for state '", name,
                      "', got avg: a mean of means is not the mean of all samples");
  states_.push_back({.name = name, .reduction = reduction, .value = Tensor::empty(shape, dtype)});
  reset_state(states_.back());
  return states_.back();
}

void Metric::reset() {
  for (const MetricState& state : states_) reset_state(state);
}

std::string Metric::description() const {
  std::string line = text(kind_, "(", options_, ")");
  for (const MetricState& state : states_)
    line += text(", ", state.name, " ", state.value.shape(), " ", state.value.dtype(), " ",
                 dist::name_of(state.reduction));
  return line;
}

Tensor Metric::compute(dist::Communicator& ranks) {
  Metric* const self = this;
  const ReducedStates reduced({&self, 1}, ranks);
  return value();
}

}  // namespace tessera::training
