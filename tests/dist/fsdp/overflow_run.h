#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "dist/fsdp/shard.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/grad_scaler.h"
#include "optim/rules/adam.h"

/// A loss scale's overflow on one rank only, for ranks that are threads and for ranks that are processes.
namespace tessera::test {

/// Two branches, so that only the gradients of one overflow.
struct TwoBranches : nn::Layer<TwoBranches> {
  nn::Linear& a = add<nn::Linear>("a", {.in = 3, .out = 5});
  nn::Linear& b = add<nn::Linear>("b", {.in = 3, .out = 5});
  Variable forward(const Variable& x, const Variable& y) { return a(x) + b(y); }
};

/// Whether this rank's shard of a parameter's gradient has a value that is not finite.
inline bool holds_overflow(const ParameterList& list, const std::string& name) {
  for (const NamedParameter& parameter : list)
    if (parameter.name == name && parameter.variable.grad().defined())
      for (int64_t i = 0; i < parameter.variable.numel(); ++i)
        if (!std::isfinite(parameter.variable.grad().value().reshape({-1}).select(0, i).item())) return true;
  return false;
}

inline Variable constant(double value) {
  return Variable(Tensor::scalar(static_cast<float>(value)).expand({2, 3}).clone());
}

/// The problems of this rank when the last rank's gradient of 'b.weight' overflows in step 2 of 5: all ranks
/// must skip that step and no other, halve the scale, and name the same parameter, rank and step.
inline std::vector<std::string> check_overflow(dist::World& world, const dist::Mesh& mesh,
                                               dist::Strategy strategy) {
  TwoBranches model;
  dist::shard(model, {.mesh = mesh, .strategy = strategy, .units = dist::every<nn::Linear>()});
  nn::materialize(model, world.device(), 3);
  optim::AdamW adam(model.parameters(), {.lr = 0.1});
  optim::GradScaler scaler({.initial_scale_power = 4, .hysteresis = 1, .min_loss_scale = 8});
  std::vector<std::string> problems;
  const auto expect = [&](bool condition, const std::string& problem) {
    if (!condition) problems.push_back(text(strategy, ": ", problem));
  };
  const auto backward = [&](bool overflows) {
    const bool is_here = overflows && world.rank() == world.size() - 1;
    adam.zero_grad();
    sum(model(constant(world.rank() + 1), constant(is_here ? 3e38 : 0.5))).backward(Variable(scaler.scale()));
  };
  for (int step = 0; step < 5; ++step) {
    backward(step == 2);
    const bool is_taken = scaler.step(adam);
    expect(is_taken == (step != 2), text("step ", step, " was ", is_taken ? "taken" : "skipped"));
    expect(scaler.scale().item() == (step < 2 ? 16 : 8), text("the scale is ", scaler.scale().item()));
    if (step != 2) continue;
    const std::optional<optim::NonFiniteGradient>& fault = scaler.first_nonfinite();
    expect(fault && fault->parameter == "b.weight" && fault->step == 2,
           "names " + (fault ? to_string(*fault) : "none"));
    const bool has_overflow = holds_overflow(adam.parameters(), "b.weight");
    if (fault && fault->rank == world.rank()) expect(has_overflow, "names a rank without the overflow");
    if (fault && fault->rank > world.rank()) expect(!has_overflow, "names a rank that is not the first");
  }
  for (const NamedTensor& entry : adam.state().tensors)
    if (entry.name.starts_with("step/"))
      expect(entry.tensor.item_i64() == 4, text(entry.name, " counts ", entry.tensor.item_i64(), " updates"));
  backward(true);
  try {
    scaler.step(adam);
    expect(false, "an overflow at the smallest scale is no error");
  } catch (const NonFiniteError& error) {
    const std::string message = error.what();
    for (const char* words : {"'b.weight'", "on rank ", "in step 5", "minimum, 8"})
      expect(message.find(words) != std::string::npos, message);
  }
  return problems;
}

/// `check_overflow` under every strategy.
inline std::vector<std::string> check_overflow_everywhere(dist::World& world) {
  std::vector<std::string> problems;
  const int halves = world.size() % 2 == 0 ? 2 : 1;
  const dist::Mesh flat(world), grid(world, {{"replica", halves}, {"shard", -1}});
  for (const dist::Strategy strategy : dist::strategies)
    for (const std::string& problem :
         check_overflow(world, dist::traits_of(strategy).replicates ? grid : flat, strategy))
      problems.push_back(problem);
  return problems;
}

}  // namespace tessera::test
