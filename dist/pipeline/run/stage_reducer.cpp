#include "dist/pipeline/run/stage_reducer.h"

#include <cmath>

#include "tensor/ops/training/multi_tensor.h"

namespace tessera::dist {
namespace {

/// The sum, or the largest for an infinite p; NaN where one is.
double combined(std::span<const double> sums, double p) {
  double total = 0, largest = 0;
  for (const double sum : sums) {
    total += sum;
    if (!(largest >= sum) && largest == largest) largest = sum;
  }
  return std::isinf(p) ? largest : total;
}

}  // namespace

/// The parameters of the list that this stage counts.
ParameterList StageReducer::counted(const ParameterList& list) const {
  return list.where(
      [&](const NamedParameter& parameter) { return !counted_elsewhere_.contains(parameter.name); });
}

/// Of gradients that are summed over stages afterwards, tied ones, the norm takes the squares again.
void StageReducer::take_squares(const ParameterList& list, int64_t backwards) {
  ParameterList own = counted(list);
  if (within_) return within_->take_squares(own, backwards);
  squares_.reset();
  own.set_reducer(nullptr);
  if (backwards > 0) squares_.emplace(own, backwards);
}

double StageReducer::own_power_sum(const ParameterList& list, double p) const {
  const ParameterList counted = this->counted(list);
  if (within_) return within_->power_sum(counted, p);
  if (counted.empty()) return 0;
  std::vector<Tensor> gradients;
  for (const NamedParameter& parameter : counted) {
    const Variable gradient = parameter.variable.grad();
    gradients.push_back(gradient.defined() ? gradient.value() : Tensor());
  }
  const Tensor sums = ops::power_sums(gradients, p);
  return combined({sums.data<double>(), static_cast<size_t>(sums.numel())}, p);
}

std::vector<double> StageReducer::gather(double value, const char* unit) const {
  const Tensor all = Tensor::empty({ranks_->size()}, f64);
  ranks_->all_gather(all, Tensor::from({value}), {.unit = unit}).wait();
  return {all.data<double>(), all.data<double>() + all.numel()};
}

double StageReducer::power_sum(const ParameterList& list, double p) {
  return combined(gather(own_power_sum(list, p), "norm"), p);
}

void StageReducer::sum_over_shards(std::span<double> values) {
  if (within_) within_->sum_over_shards(values);
}

double StageReducer::largest(double value) {
  if (within_) value = within_->largest(value);
  const Tensor result = Tensor::scalar(value);
  ranks_->all_reduce(result, Reduction::max, {.unit = "largest"}).wait();
  return result.item();
}

void StageReducer::clear(const ParameterList& list) {
  if (within_) within_->clear(list);
}

int StageReducer::rank() const {
  return ranks_->members()[static_cast<size_t>(ranks_->rank())];
}

}  // namespace tessera::dist
