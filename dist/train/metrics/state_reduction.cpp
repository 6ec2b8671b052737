#include "dist/train/metrics/state_reduction.h"

#include <cmath>
#include <utility>

#include "dist/train/metrics/metric_agreement.h"

namespace tessera::training {
namespace {

using dist::Reduction;

constexpr dist::CallOptions call{.unit = "metrics", .traffic = dist::Traffic::control};

/// The elements first .. first + numel - 1 of a 1-dim tensor, in the shape of a state.
Tensor part_of(const Tensor& packed, int64_t first, const Tensor& state) {
  return packed.narrow(0, first, state.numel()).view(state.shape());
}

template <class T>
T smaller_or_larger(T a, T b, Reduction reduction) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  return (b < a) == (reduction == Reduction::min) ? b : a;
}

/// result = the reduction of its `n` values of each rank, which begin at `of_rank_0` + r * `stride`.
template <class T>
void combine(Reduction reduction, const T* of_rank_0, int64_t stride, int ranks, int64_t n, T* result) {
  for (int64_t i = 0; i < n; ++i) {
    T value = of_rank_0[i];
    for (int r = 1; r < ranks; ++r) {
      const T next = of_rank_0[r * stride + i];
      value = reduction == Reduction::sum ? value + next : smaller_or_larger(value, next, reduction);
    }
    result[i] = value;
  }
}

template <class T>
Tensor gather_and_combine(const Tensor& packed, const std::vector<MetricState*>& states,
                          dist::Communicator& ranks) {
  const int64_t n = packed.numel();
  const Tensor all = Tensor::empty({ranks.size(), n}, packed.dtype(), ranks.device());
  const Tensor own = packed.to(ranks.device());
  ranks.all_gather(all, own, call).wait();
  const Tensor gathered = all.to(cpu());
  const Tensor result = Tensor::empty({n}, packed.dtype());
  int64_t first = 0;
  for (const MetricState* state : states) {
    combine(state->reduction, gathered.data<T>() + first, n, ranks.size(), state->value.numel(),
            result.data<T>() + first);
    first += state->value.numel();
  }
  return result;
}

/// The values of the states, all of one dtype, over all ranks: parts of one tensor.
std::vector<Tensor> reduce(const std::vector<MetricState*>& states, DType dtype, dist::Communicator& ranks) {
  int64_t elements = 0;
  bool only_sums = true;
  for (const MetricState* state : states) {
    elements += state->value.numel();
    only_sums &= state->reduction == Reduction::sum;
  }
  Tensor packed = Tensor::empty({elements}, dtype);
  int64_t first = 0;
  for (const MetricState* state : states) {
    part_of(packed, first, state->value).copy_from(state->value);
    first += state->value.numel();
  }
  if (only_sums) {
    const Tensor sums = packed.to(ranks.device());
    ranks.all_reduce(sums, Reduction::sum, call).wait();
    packed = sums.to(cpu());
  } else {
    packed = dtype == i64 ? gather_and_combine<int64_t>(packed, states, ranks)
                          : gather_and_combine<double>(packed, states, ranks);
  }
  std::vector<Tensor> values;
  first = 0;
  for (const MetricState* state : states) {
    values.push_back(part_of(packed, first, state->value));
    first += state->value.numel();
  }
  return values;
}

}  // namespace

ReducedStates::ReducedStates(std::span<Metric* const> metrics, dist::Communicator& ranks) {
  require_same_metrics(metrics, ranks);
  for (const DType dtype : {f64, i64}) {
    std::vector<MetricState*> states;
    for (Metric* const metric : metrics)
      for (MetricState& state : metric->states_)
        if (state.value.dtype() == dtype) states.push_back(&state);
    if (states.empty()) continue;
    for (Tensor& value : reduce(states, dtype, ranks)) values_.push_back(std::move(value));
    states_.insert(states_.end(), states.begin(), states.end());
  }
  exchange();
}

ReducedStates::~ReducedStates() {
  exchange();
}

void ReducedStates::exchange() {
  for (size_t i = 0; i < states_.size(); ++i) std::swap(states_[i]->value, values_[i]);
}

}  // namespace tessera::training
