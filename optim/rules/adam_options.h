#pragma once  // internal

#include <string>

#include "optim/option_table.h"

namespace tessera::optim {

/// Throws ConfigError, naming optimizer and option, for options of Adam's family out of range.
template <class Rule>
void check_adam_options(const std::string& optimizer, const Rule& rule) {
  require_fraction(optimizer, "betas[0]", rule.beta1);
  require_fraction(optimizer, "betas[1]", rule.beta2);
  require_not_negative(optimizer, "eps", rule.eps);
  require_not_negative(optimizer, "weight_decay", rule.weight_decay);
  if constexpr (requires { rule.momentum_decay; })
    require_not_negative(optimizer, "momentum_decay", rule.momentum_decay);
}

/// The saved options of Adam's family: those that a rule of it has.
template <class Rule>
OptionTable<Rule> adam_options() {
  OptionTable<Rule> table{{{.name = "beta1", .value = &Rule::beta1},
                           {.name = "beta2", .value = &Rule::beta2},
                           {.name = "eps", .value = &Rule::eps},
                           {.name = "weight_decay", .value = &Rule::weight_decay}},
                          &check_adam_options<Rule>};
  if constexpr (requires { &Rule::momentum_decay; })
    table.fields.push_back({.name = "momentum_decay", .value = &Rule::momentum_decay});
  if constexpr (requires { &Rule::amsgrad; })
    table.fields.push_back({.name = "amsgrad", .flag = &Rule::amsgrad});
  if constexpr (requires { &Rule::decoupled; })
    table.fields.push_back({.name = "decoupled_weight_decay", .flag = &Rule::decoupled});
  table.fields.push_back({.name = "maximize", .flag = &Rule::maximize});
  return table;
}

}  // namespace tessera::optim
