#include "dist/train/metrics/metric_collection.h"

#include "dist/train/metrics/metric_names.h"
#include "dist/train/metrics/state_reduction.h"

namespace tessera::training {

void MetricCollection::insert(const std::string& name, std::unique_ptr<Metric> metric) {
  check_metric_name("MetricCollection", name);
  require<ValueError>(metric != nullptr, "MetricCollection: expected a metric '", name,
                      "', got a null pointer");
  for (const auto& each : metrics_)
    require<ValueError>(each->name() != name, "MetricCollection: it has a metric '", name, "' already");
  metric->name_ = name;
  metrics_.push_back(std::move(metric));
}

Metric& MetricCollection::at(const std::string& name) const {
  std::string names;
  for (const auto& metric : metrics_) {
    if (metric->name() == name) return *metric;
    names += text(names.empty() ? "'" : ", '", metric->name(), "'");
  }
  throw ValueError(text("MetricCollection: expected the name of a metric (",
                        names.empty() ? "it has none" : names, "), got '", name, "'"));
}

std::vector<NamedTensor> MetricCollection::compute() const {
  std::vector<NamedTensor> values;
  for (const auto& metric : metrics_) values.push_back({.name = metric->name(), .tensor = metric->value()});
  return values;
}

std::vector<NamedTensor> MetricCollection::compute(dist::Communicator& ranks) {
  std::vector<Metric*> metrics;
  for (const auto& metric : metrics_) metrics.push_back(metric.get());
  const ReducedStates reduced(metrics, ranks);
  return compute();
}

void MetricCollection::reset() {
  for (const auto& metric : metrics_) metric->reset();
}

}  // namespace tessera::training
