#include "optim/by_name/optimizer_options.h"

#include <algorithm>

#include "tensor/error.h"
#include "tensor/nearest_name.h"

namespace tessera::optim {
namespace {

using enum OptionKind;
using enum OptionEffect;
using Row = OptimizerOption;

const std::vector<double> adam_betas{0.9, 0.999};

constexpr char rate[] = "the first learning rate", decay[] = "times the parameter, added to the gradient",
               decoupled[] = "times lr, the fraction of the parameter subtracted in each step",
               betas_of_means[] = "decay of the means of the gradient and of its square",
               kernel[] = "it chooses among PyTorch's kernels; here there is one",
               gradient_none[] = "zero_grad has it as its argument", own_graph[] = "a step enters no graph",
               state_dtype[] = "the state has the dtype of the parameters, or of their f32 masters",
               clip[] = "clip with clip_coefficient (optim/clip.h), DeepSpeed's gradient_clipping",
               climb[] = "climb instead of descending",
               of_others[] = "of Adam for other parameters; Muon takes matrices alone, and refuses others";

Row refused_norm(const char* optimizer) {
  return {optimizer, "max_grad_norm", number, 0.0, refused, clip};
}

/// The options of Adam and AdamW; `mode`: what adam_w_mode does.
void add_adam(std::vector<Row>& rows, const char* name, OptionEffect mode, const char* mode_note) {
  const Row adam[] = {
      {name, "lr", number, 1e-3, honoured, rate},
      {name, "betas", pair, adam_betas, honoured, betas_of_means},
      {name, "eps", number, 1e-8, honoured, "added to the root of the second"},
      {name, "weight_decay", number, 0.0, honoured, "as adam_w_mode says"},
      {name, "adam_w_mode", flag, true, mode, mode_note},
      {name, "torch_adam", flag, false, honoured,
       "with AdamW's decay the default of weight_decay is PyTorch's, 0.01; the step is the same"},
      {name, "bias_correction", flag, true, only_default, "the means are always corrected"},
      {name, "amsgrad", flag, false, honoured, "divide by the largest second mean so far"},
      {name, "maximize", flag, false, honoured, climb},
      {name, "set_grad_none", flag, true, no_effect, gradient_none},
      {name, "fp32_optimizer_states", flag, true, only_default, state_dtype},
      {name, "foreach", flag, false, no_effect, kernel},
      {name, "fused", flag, false, no_effect, kernel},
      {name, "capturable", flag, false, no_effect, kernel},
      {name, "differentiable", flag, false, only_default, own_graph},
      refused_norm(name),
  };
  rows.insert(rows.end(), std::begin(adam), std::end(adam));
}

void add_torch_optimizers(std::vector<Row>& rows) {
  const Row torch[] = {
      {"SGD", "lr", number, 1e-3, honoured, rate},
      {"SGD", "momentum", number, 0.0, honoured, "factor of the velocity of the last step"},
      {"SGD", "dampening", number, 0.0, honoured, "the fraction of a gradient that the velocity lacks"},
      {"SGD", "weight_decay", number, 0.0, honoured, decay},
      {"SGD", "nesterov", flag, false, honoured, "look ahead by one momentum"},
      {"SGD", "maximize", flag, false, honoured, climb},
      {"SGD", "foreach", flag, false, no_effect, kernel},
      {"SGD", "fused", flag, false, no_effect, kernel},
      {"SGD", "differentiable", flag, false, only_default, own_graph},
      refused_norm("SGD"),
      {"Adagrad", "lr", number, 1e-2, honoured, rate},
      {"Adagrad", "lr_decay", number, 0.0, honoured, "the rate of step t (from 0) is lr / (1 + t lr_decay)"},
      {"Adagrad", "eps", number, 1e-10, honoured, "added to the root"},
      {"Adagrad", "weight_decay", number, 0.0, honoured, decay},
      {"Adagrad", "initial_accumulator_value", number, 0.0, honoured, "of every element of the sum"},
      {"Adagrad", "maximize", flag, false, honoured, climb},
      {"Adagrad", "amsgrad", flag, false, no_effect, "DeepSpeed's Adagrad does not use it either"},
      {"Adagrad", "fp32_optimizer_states", flag, true, only_default, state_dtype},
      {"Adagrad", "foreach", flag, false, no_effect, kernel},
      {"Adagrad", "fused", flag, false, no_effect, kernel},
      {"Adagrad", "differentiable", flag, false, only_default, own_graph},
      refused_norm("Adagrad"),
      {"RMSprop", "lr", number, 1e-2, honoured, rate},
      {"RMSprop", "alpha", number, 0.99, honoured, "decay of the running means"},
      {"RMSprop", "eps", number, 1e-8, honoured, "added to the root"},
      {"RMSprop", "weight_decay", number, 0.0, honoured, decay},
      {"RMSprop", "momentum", number, 0.0, honoured, "factor of the momentum buffer of the last step"},
      {"RMSprop", "centered", flag, false, honoured, "divide by the standard deviation"},
      {"RMSprop", "maximize", flag, false, honoured, climb},
      {"RMSprop", "foreach", flag, false, no_effect, kernel},
      {"RMSprop", "capturable", flag, false, no_effect, kernel},
      {"RMSprop", "differentiable", flag, false, only_default, own_graph},
      refused_norm("RMSprop"),
  };
  rows.insert(rows.end(), std::begin(torch), std::end(torch));
}

void add_own_optimizers(std::vector<Row>& rows) {
  const Row own[] = {
      {"Lamb", "lr", number, 1e-3, honoured, rate},
      {"Lamb", "betas", pair, adam_betas, honoured, betas_of_means},
      {"Lamb", "eps", number, 1e-8, honoured, "added to the root of the second"},
      {"Lamb", "weight_decay", number, 0.0, honoured, "times the parameter, added to Adam's change"},
      {"Lamb", "bias_correction", flag, true, honoured, "of the rate, as DeepSpeed; false: none"},
      {"Lamb", "max_coeff", number, 10.0, honoured, "the largest factor to the parameter's norm"},
      {"Lamb", "min_coeff", number, 0.01, honoured, "the least"},
      {"Lamb", "eps_inside_sqrt", flag, false, only_default, "eps is added to the root"},
      {"Lamb", "amsgrad", flag, false, only_default, "DeepSpeed's Lamb does not have it either"},
      refused_norm("Lamb"),
      {"Lion", "lr", number, 1e-3, honoured, rate},
      {"Lion", "betas", pair, adam_betas, honoured, "shares of the mean in direction and mean"},
      {"Lion", "weight_decay", number, 0.0, honoured, decoupled},
      {"Lion", "set_grad_none", flag, true, no_effect, gradient_none},
      {"Lion", "fp32_optimizer_states", flag, true, only_default, state_dtype},
      refused_norm("Lion"),
      {"Muon", "lr", number, 0.02, honoured, rate},
      {"Muon", "muon_lr", number, std::nullopt, honoured, "in place of lr, which is its default"},
      {"Muon", "momentum", number, 0.95, honoured, "decay of the momentum buffer"},
      {"Muon", "weight_decay", number, 0.0, honoured, decoupled},
      {"Muon", "ns_method", text, std::string("gram"), no_effect,
       "'gram' and 'standard' compute the same matrix; here always by the standard iterations"},
      {"Muon", "adam_lr", number, std::nullopt, no_effect, of_others},
      {"Muon", "betas", pair, std::vector{0.9, 0.95}, no_effect, of_others},
      {"Muon", "eps", number, 1e-10, no_effect, of_others},
      {"Muon", "adam_w_mode", flag, true, no_effect, of_others},
      {"Muon", "torch_adam", flag, false, no_effect, of_others},
      {"Muon", "fp32_optimizer_states", flag, true, only_default, state_dtype},
      refused_norm("Muon"),
  };
  rows.insert(rows.end(), std::begin(own), std::end(own));
}

std::vector<Row> make_table() {
  std::vector<Row> rows;
  add_adam(rows, "Adam", honoured, "decay as AdamW does; false: add the decay to the gradient");
  add_adam(rows, "AdamW", no_effect, "AdamW always subtracts the decay from the parameter");
  add_torch_optimizers(rows);
  add_own_optimizers(rows);
  return rows;
}

const char* effect_text(OptionEffect effect) {
  switch (effect) {
    case honoured:
      return "";
    case no_effect:
      return "no effect: ";
    case only_default:
      return "only the default: ";
    case refused:
      return "refused: ";
  }
  return "";
}

/// A number equals another of any type.
bool is_default(const OptionValue& value, const Row& row) {
  if (!row.default_value) return false;
  const auto* count = std::get_if<int64_t>(&value);
  return (count ? OptionValue(static_cast<double>(*count)) : value) == *row.default_value;
}

void require_accepted(const std::string& where, const Row& row, const OptionValue& value) {
  require<ConfigError>(row.effect != refused, where, ": ", row.key, " is refused: ", row.note);
  require<ConfigError>(is_of_kind(value, row.kind), where, ": expected ", row.kind, " as ", row.key, ", got ",
                       value_text(value));
  require<ConfigError>(row.effect != only_default || is_default(value, row), where, ": expected ", row.key,
                       " = ", row.default_value ? value_text(*row.default_value) : "", ", got ",
                       value_text(value), ": ", row.note);
}

}  // namespace

std::span<const OptimizerOption> optimizer_options() {
  static const std::vector<Row> table = make_table();
  return table;
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const Row& row : optimizer_options())
    if (names.empty() || names.back() != row.optimizer) names.emplace_back(row.optimizer);
  return names;
}

std::string optimizer_reference() {
  std::string lines;
  const char* last = "";
  for (const Row& row : optimizer_options()) {
    if (std::string_view(last) != row.optimizer)
      lines += tessera::text(*last ? "\n" : "", row.optimizer, "\n");
    last = row.optimizer;
    lines += tessera::text("  ", row.key, ": ", row.kind);
    if (row.default_value && row.effect != refused)
      lines += tessera::text(", default ", value_text(*row.default_value));
    lines += tessera::text("; ", effect_text(row.effect), row.note, "\n");
  }
  return lines;
}

OptimizerValues::OptimizerValues(std::string_view optimizer, std::span<const NamedValue> given) {
  const std::string where = tessera::text("optimizer ", optimizer);
  std::map<std::string, const Row*> rows;
  std::vector<std::string> keys;
  for (const Row& row : optimizer_options()) {
    if (row.optimizer != optimizer) continue;
    rows[row.key] = &row;
    keys.emplace_back(row.key);
    values_[row.key] = {row.default_value, false};
  }
  for (const NamedValue& option : given) {
    if (!rows.contains(option.name)) {
      const std::string near = nearest_name(option.name, keys);
      std::string names;
      for (const std::string& key : keys) names += (names.empty() ? "" : ", ") + key;
      throw ConfigError(
          tessera::text(where, ": unknown option '", option.name, "'",
                        near.empty() ? "; there are " + names : "; did you mean '" + near + "'?"));
    }
    require<ConfigError>(!values_[option.name].given, where, ": ", option.name, " is given twice");
    require_accepted(where, *rows[option.name], option.value);
    values_[option.name] = {option.value, true};
  }
}

double OptimizerValues::number(const std::string& key) const {
  const OptionValue& value = values_.at(key).value.value();
  const auto* count = std::get_if<int64_t>(&value);
  return count ? static_cast<double>(*count) : std::get<double>(value);
}

bool OptimizerValues::flag(const std::string& key) const {
  return std::get<bool>(values_.at(key).value.value());
}

const std::string& OptimizerValues::words(const std::string& key) const {
  return std::get<std::string>(*values_.at(key).value);
}

std::array<double, 2> OptimizerValues::pair(const std::string& key) const {
  const auto& numbers = std::get<std::vector<double>>(values_.at(key).value.value());
  return {numbers[0], numbers[1]};
}

}  // namespace tessera::optim
