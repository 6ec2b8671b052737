#include "dist/train/estimate/model_size.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "tensor/error.h"

namespace tessera::training {
namespace {

int64_t bytes_of(const Variable& values) {
  return values.numel() * size_of(values.dtype());
}

/// The end of the stage that begins at `first`: its sum is at most `limit`, and it has a layer at least.
size_t stage_end(std::span<const int64_t> layers, size_t first, size_t last, int64_t limit) {
  size_t end = first + 1;
  for (int64_t sum = layers[first]; end < last; ++end) {
    sum += layers[end];
    if (sum > limit) break;
  }
  return end;
}

/// The bounds for a largest stage of `limit`; the last one is below the number of layers where that does not
/// suffice. A later stage keeps a layer.
std::vector<int64_t> bounds_for(std::span<const int64_t> layers, int stages, int64_t limit) {
  std::vector<int64_t> bounds{0};
  for (int stage = 0; stage < stages; ++stage) {
    const size_t last = layers.size() - static_cast<size_t>(stages - 1 - stage);
    bounds.push_back(
        static_cast<int64_t>(stage_end(layers, static_cast<size_t>(bounds.back()), last, limit)));
  }
  return bounds;
}

}  // namespace

ModelSize model_size(const nn::Module& module) {
  ModelSize size;
  nn::ParameterSet seen;
  module.for_each([&](const nn::Module& layer) {
    int64_t own = 0, own_bytes = 0;
    for (const nn::Module::Entry& entry : layer.entries()) {
      if (!entry.held || !entry.variable.defined()) continue;
      const int64_t bytes = bytes_of(entry.variable);
      own_bytes += bytes;
      own += entry.is_buffer ? 0 : entry.variable.numel();
      if (!seen.insert(entry.variable.impl().get()).second) continue;
      size.total_bytes += bytes;
      if (entry.is_buffer) continue;
      size.parameters += entry.variable.numel();
      size.bytes += bytes;
    }
    size.largest_layer = std::max(size.largest_layer, own);
    if (layer.child_entries().empty()) size.largest_leaf_bytes = std::max(size.largest_leaf_bytes, own_bytes);
  });
  return size;
}

std::string native_size_text(int64_t bytes, int decimals) {
  require<ConfigError>(bytes >= 0, "native_size_text: expected 0 bytes or more, got ", bytes);
  require<ConfigError>(decimals >= 1 && decimals <= 9, "native_size_text: expected 1 to 9 decimals, got ",
                       decimals);
  char digits[64];
  std::snprintf(digits, sizeof digits, "%.*f", decimals,
                static_cast<double>(bytes) / static_cast<double>(int64_t{1} << 30));
  std::string number = digits;
  while (number.back() == '0' && number[number.size() - 2] != '.') number.pop_back();
  return "Native model parameters size: " + number + "GB.";
}

std::vector<int64_t> partition_by_parameters(std::span<const int64_t> layers, int stages) {
  require<ConfigError>(stages >= 1, "partition_by_parameters: expected 1 stage or more, got ", stages);
  require<ConfigError>(std::ssize(layers) >= stages, "partition_by_parameters: expected a layer for each of ",
                       stages, " stages, got ", layers.size(), " layers");
  for (const int64_t layer : layers)
    require<ConfigError>(layer >= 0, "partition_by_parameters: expected layers of 0 parameters or more, got ",
                         layer);
  int64_t least = *std::max_element(layers.begin(), layers.end()),
          most = std::accumulate(layers.begin(), layers.end(), int64_t{0});
  while (least < most) {
    const int64_t middle = least + (most - least) / 2;
    const bool suffices = bounds_for(layers, stages, middle).back() == std::ssize(layers);
    (suffices ? most : least) = suffices ? middle : middle + 1;
  }
  return bounds_for(layers, stages, least);
}

}  // namespace tessera::training
