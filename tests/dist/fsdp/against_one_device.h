#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "dist/fsdp/shard.h"
#include "tests/dist/fsdp/on_threads.h"

/// Runs a script on ranks under every strategy. Compares each rank's parameters and gradients with those of
/// one device on all ranks' samples, and with the bits of no_shard.
namespace tessera::test {

struct Setting {
  dist::Strategy strategy = dist::Strategy::full_shard;
  int replicas = 1;
};
inline std::string to_string(const Setting& s) {
  return text(s.strategy, s.replicas > 1 ? " of 2 replicas" : "");
}

/// Every strategy; of those with the same mesh no_shard is the first.
inline std::vector<Setting> settings_for(const dist::World& world) {
  using enum dist::Strategy;
  std::vector<Setting> settings{{no_shard}, {shard_optim}, {shard_grad_op}, {full_shard}};
  if (world.size() == 4)
    for (const dist::Strategy strategy : {no_shard, hybrid_shard, hybrid_shard_zero2})
      settings.push_back({strategy, 2});
  return settings;
}

inline dist::Mesh mesh_for(dist::World& world, const Setting& setting) {
  if (setting.replicas == 1) return dist::Mesh(world);
  return dist::Mesh(world, {{"replica", setting.replicas}, {"shard", -1}});
}

/// A rank's shard of one tensor; `values` are undefined for a missing gradient.
struct Shard {
  std::string name;
  int64_t first = 0;
  Tensor values;
};

/// This rank's parameters, and their gradients.
inline std::vector<Shard> shards_of(const nn::Module& model) {
  std::vector<Shard> shards;
  for (const NamedParameter& p : model.parameters()) {
    const int64_t first = p.shard ? p.shard->first : 0;
    shards.push_back({p.name, first, p.values().clone().view({-1})});
    const Variable gradient = p.variable.grad();
    shards.push_back({"the gradient of " + p.name, first,
                      gradient.defined() ? gradient.value().clone().view({-1}) : Tensor()});
  }
  return shards;
}

/// Values that differ by more than the tolerance, relative to the larger of 1 and the value; for a tolerance
/// of 0 by any bit. `all` holds full tensors or the same shards.
inline std::vector<std::string> differences(const std::vector<Shard>& found, const std::vector<Shard>& all,
                                            float tolerance) {
  std::vector<std::string> problems;
  for (size_t i = 0; i < found.size(); ++i) {
    const Shard &mine = found[i], &expected = all[i];
    if (mine.values.defined() != expected.values.defined()) {
      problems.push_back(text(mine.name, mine.values.defined() ? " is there" : " is missing"));
      continue;
    }
    for (int64_t k = 0; mine.values.defined() && k < mine.values.numel(); ++k) {
      const float a = mine.values.data<float>()[k],
                  b = expected.values.data<float>()[mine.first - expected.first + k];
      if (tolerance > 0 ? std::abs(a - b) <= tolerance * std::max(1.0f, std::abs(b))
                        : std::memcmp(&a, &b, sizeof a) == 0)
        continue;
      problems.push_back(text(mine.name, " has ", a, " at ", mine.first + k, ", expected ", b));
      break;
    }
  }
  return problems;
}

/// `sharded(setting)` and `single()` return shards; the first is run under every setting.
template <class Sharded, class Single>
std::vector<std::string> compare_all(dist::World& world, const Sharded& sharded, const Single& single,
                                     float tolerance = 1e-4f) {
  std::vector<std::string> problems;
  const std::vector<Shard> expected = single();
  std::vector<Shard> no_shard;
  for (const Setting& setting : settings_for(world)) {
    const std::vector<Shard> found = sharded(setting);
    if (setting.strategy == dist::Strategy::no_shard) no_shard = found;
    for (const std::string& problem : differences(found, expected, tolerance))
      problems.push_back(text(to_string(setting), ", one device: ", problem));
    for (const std::string& problem : differences(found, no_shard, 0))
      problems.push_back(text(to_string(setting), ", the bits of no_shard: ", problem));
  }
  return problems;
}

}  // namespace tessera::test
