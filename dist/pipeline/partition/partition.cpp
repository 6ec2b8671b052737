#include "dist/pipeline/partition/partition.h"

#include <algorithm>
#include <charconv>
#include <regex>

#include "tensor/error.h"
#include "tensor/number_text.h"

namespace tessera::dist {
namespace {

constexpr const char* forms =
    "uniform, parameters, type:REGEX, profile, memory, or boundaries such as 0,4,7,10";

std::vector<int64_t> parse_boundaries(std::string_view text) {
  std::vector<int64_t> list;
  for (const char* at = text.data(); at <= text.data() + text.size();) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(at, text.data() + text.size(), value);
    const bool is_last = end == text.data() + text.size();
    require<ConfigError>(error == std::errc() && (is_last || *end == ','), "partition method '",
                         std::string(text), "': expected ", forms);
    list.push_back(value);
    at = end + 1;
  }
  return list;
}

/// 1 for layers of a kind that the pattern matches.
std::vector<double> matches(std::span<const nn::LayerSpec> layers, const std::string& pattern) {
  std::regex regex;
  try {
    regex = std::regex(pattern, std::regex::icase);
  } catch (const std::regex_error& error) {
    throw ConfigError(text("partition method type:", pattern,
                           ": expected a regular expression, got an error: ", error.what()));
  }
  std::vector<double> costs;
  std::string kinds;
  bool matches_any = false;
  for (const nn::LayerSpec& layer : layers) {
    const bool is_match = std::regex_search(layer.kind, regex);
    matches_any = matches_any || is_match;
    costs.push_back(is_match);
    if (kinds.find(layer.kind) == std::string::npos) kinds += (kinds.empty() ? "" : ", ") + layer.kind;
  }
  require<ConfigError>(matches_any, "partition method type:", pattern, ": no layer matches; their kinds are ",
                       kinds);
  return costs;
}

void check_boundaries(const std::vector<int64_t>& boundaries, size_t layers, int stages) {
  bool ascends = std::ssize(boundaries) == stages + 1 && boundaries.front() == 0 &&
                 boundaries.back() == static_cast<int64_t>(layers);
  std::string given;
  for (size_t i = 0; i < boundaries.size(); ++i) {
    ascends = ascends && (i == 0 || boundaries[i - 1] < boundaries[i]);
    given += text(i == 0 ? "" : ",", boundaries[i]);
  }
  require<ConfigError>(ascends, "partition boundaries: expected ", stages + 1,
                       " numbers that ascend from 0 to ", layers, ", the number of layers, got ", given);
}

template <class Cost>
std::vector<double> by_layer(std::span<const LayerCost> costs, const Cost& cost) {
  std::vector<double> list;
  for (const LayerCost& layer : costs) list.push_back(static_cast<double>(cost(layer)));
  return list;
}

/// Of f32 values: gradient and two moments of Adam beside the parameter.
constexpr double state_per_parameter_byte = 4;

}  // namespace

PartitionMethod parse_partition_method(std::string_view text) {
  constexpr std::string_view type = "type:";
  if (text == "uniform") return {.kind = PartitionKind::uniform};
  if (text == "parameters") return {.kind = PartitionKind::parameters};
  if (text == "profile") return {.kind = PartitionKind::profile};
  if (text == "memory") return {.kind = PartitionKind::memory};
  if (text.starts_with(type) && text.size() > type.size())
    return {.kind = PartitionKind::type, .pattern = std::string(text.substr(type.size()))};
  return {.kind = PartitionKind::boundaries, .boundaries = parse_boundaries(text)};
}

std::vector<int64_t> partition_layers(std::span<const nn::LayerSpec> layers, std::span<const LayerCost> costs,
                                      const PartitionMethod& method, int stages,
                                      const std::vector<int>& live) {
  require<ConfigError>(costs.size() == layers.size(), "partition: expected the costs of ", layers.size(),
                       " layers, got ", costs.size());
  PartitionCosts balanced;
  switch (method.kind) {
    case PartitionKind::uniform:
      balanced.fixed.assign(layers.size(), 1);
      break;
    case PartitionKind::parameters:
      balanced.fixed = by_layer(costs, [](const LayerCost& c) { return c.parameters; });
      break;
    case PartitionKind::type:
      balanced.fixed = matches(layers, method.pattern);
      break;
    case PartitionKind::profile:
      require<ConfigError>(
          std::any_of(costs.begin(), costs.end(), [](const LayerCost& c) { return c.flops > 0; }),
          "partition method profile: expected the FLOPs of layers (layer_costs with inputs on meta), got "
          "none");
      balanced.fixed = by_layer(costs, [](const LayerCost& c) { return c.flops; });
      break;
    case PartitionKind::memory:
      balanced.fixed = by_layer(costs, [](const LayerCost& c) {
        return state_per_parameter_byte * static_cast<double>(c.parameter_bytes);
      });
      balanced.scaled = by_layer(costs, [](const LayerCost& c) { return c.activation_bytes; });
      balanced.live.assign(live.begin(), live.end());
      break;
    case PartitionKind::boundaries:
      check_boundaries(method.boundaries, layers.size(), stages);
      return method.boundaries;
  }
  return balanced_boundaries(balanced, stages);
}

std::string partition_text(std::span<const LayerCost> costs, std::span<const int64_t> boundaries,
                           std::span<const int> ranks) {
  std::string lines;
  for (size_t s = 0; s + 1 < boundaries.size(); ++s) {
    int64_t parameters = 0;
    for (int64_t layer = boundaries[s]; layer < boundaries[s + 1]; ++layer)
      parameters += costs[static_cast<size_t>(layer)].parameters;
    lines += text("RANK=", ranks[s], " STAGE=", s, " LAYERS=", boundaries[s + 1] - boundaries[s], " [",
                  boundaries[s], ", ", boundaries[s + 1], ") STAGE_PARAMS=", parameters, " (",
                  fixed(static_cast<double>(parameters) / 1e6, 3), "M)\n");
  }
  return lines;
}

}  // namespace tessera::dist
