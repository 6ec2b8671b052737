#include "optim/by_name/optimizer_by_name.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "optim/by_name/optimizer_options.h"
#include "optim/rules/adagrad.h"
#include "optim/rules/adam.h"
#include "optim/rules/lamb.h"
#include "optim/rules/lion.h"
#include "optim/rules/muon.h"
#include "optim/rules/rmsprop.h"
#include "optim/rules/sgd.h"
#include "tensor/nearest_name.h"

namespace tessera::optim {
namespace {

using Values = OptimizerValues;

/// The decay of Adam's family: with torch_adam PyTorch's default where the decay is AdamW's.
double adam_decay(const Values& v, bool decoupled) {
  if (v.flag("torch_adam") && decoupled && !v.is_given("weight_decay")) return AdamWOptions().weight_decay;
  return v.number("weight_decay");
}

AdamOptions adam(const Values& v) {
  const bool decoupled = v.flag("adam_w_mode");
  return {.lr = v.number("lr"),
          .betas = v.pair("betas"),
          .eps = v.number("eps"),
          .weight_decay = adam_decay(v, decoupled),
          .amsgrad = v.flag("amsgrad"),
          .decoupled_weight_decay = decoupled,
          .maximize = v.flag("maximize")};
}

AdamWOptions adamw(const Values& v) {
  return {.lr = v.number("lr"),
          .betas = v.pair("betas"),
          .eps = v.number("eps"),
          .weight_decay = adam_decay(v, true),
          .amsgrad = v.flag("amsgrad"),
          .maximize = v.flag("maximize")};
}

SGDOptions sgd(const Values& v) {
  return {.lr = v.number("lr"),
          .momentum = v.number("momentum"),
          .dampening = v.number("dampening"),
          .weight_decay = v.number("weight_decay"),
          .nesterov = v.flag("nesterov"),
          .maximize = v.flag("maximize")};
}

AdagradOptions adagrad(const Values& v) {
  return {.lr = v.number("lr"),
          .lr_decay = v.number("lr_decay"),
          .eps = v.number("eps"),
          .weight_decay = v.number("weight_decay"),
          .initial_accumulator_value = v.number("initial_accumulator_value"),
          .maximize = v.flag("maximize")};
}

RMSpropOptions rmsprop(const Values& v) {
  return {.lr = v.number("lr"),
          .alpha = v.number("alpha"),
          .eps = v.number("eps"),
          .weight_decay = v.number("weight_decay"),
          .momentum = v.number("momentum"),
          .centered = v.flag("centered"),
          .maximize = v.flag("maximize")};
}

LambOptions lamb(const Values& v) {
  return {.lr = v.number("lr"),
          .betas = v.pair("betas"),
          .eps = v.number("eps"),
          .weight_decay = v.number("weight_decay"),
          .min_coeff = v.number("min_coeff"),
          .max_coeff = v.number("max_coeff"),
          .bias_correction = v.flag("bias_correction") ? LambBiasCorrection::rate : LambBiasCorrection::none};
}

LionOptions lion(const Values& v) {
  return {.lr = v.number("lr"), .betas = v.pair("betas"), .weight_decay = v.number("weight_decay")};
}

MuonOptions muon(const Values& v) {
  const std::string& method = v.words("ns_method");
  require<ConfigError>(method == "gram" || method == "standard",
                       "optimizer Muon: expected 'gram' or 'standard' as ns_method, got '", method, "'");
  return {.lr = v.number(v.is_given("muon_lr") ? "muon_lr" : "lr"),
          .weight_decay = v.number("weight_decay"),
          .momentum = v.number("momentum")};
}

using Groups = std::vector<ParameterList>;

template <class Class, auto read>
std::unique_ptr<Optimizer> make(const Groups& lists, const std::vector<Values>& values) {
  std::vector<ParameterGroup<typename Class::Options>> groups;
  for (size_t i = 0; i < lists.size(); ++i) groups.push_back({lists[i], read(values[i])});
  return std::make_unique<Class>(groups);
}

struct Maker {
  const char* name;
  std::unique_ptr<Optimizer> (*make)(const Groups& lists, const std::vector<Values>& values);
};
constexpr Maker makers[] = {
    {"Adam", &make<Adam, adam>},          {"AdamW", &make<AdamW, adamw>},       {"SGD", &make<SGD, sgd>},
    {"Adagrad", &make<Adagrad, adagrad>}, {"RMSprop", &make<RMSprop, rmsprop>}, {"Lamb", &make<Lamb, lamb>},
    {"Lion", &make<Lion, lion>},          {"Muon", &make<Muon, muon>}};

/// DeepSpeed's optimizers that the library lacks.
constexpr const char* missing[] = {"OneBitAdam", "ZeroOneAdam", "OneBitLamb", "MuAdam", "MuAdamW", "MuSGD"};

std::string lower(std::string_view name) {
  std::string letters(name);
  for (char& c : letters) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return letters;
}

const Maker& maker_of(std::string_view name) {
  std::string names;
  std::vector<std::string> known;
  for (const Maker& maker : makers) {
    if (lower(maker.name) == lower(name)) return maker;
    known.push_back(lower(maker.name));
    names += tessera::text(names.empty() ? "" : ", ", maker.name);
  }
  for (const char* absent : missing)
    require<NotBuiltError>(lower(absent) != lower(name), "optimizer ", absent, ": not there yet; there are ",
                           names);
  const std::string near = nearest_name(lower(name), known);
  const auto nearest = std::find(known.begin(), known.end(), near);
  throw ConfigError(text("optimizer '", name, "' is unknown",
                         near.empty()
                             ? "; there are " + names
                             : text("; did you mean '", makers[nearest - known.begin()].name, "'?")));
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const ParameterList& parameters,
                                          const std::vector<NamedValue>& options) {
  return make_optimizer(name, std::vector{NamedOptionsGroup{parameters, {}}}, options);
}

std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const std::vector<NamedOptionsGroup>& groups,
                                          const std::vector<NamedValue>& options) {
  const Maker& maker = maker_of(name);
  const Values common(maker.name, options);  // the check of options that every group replaces
  Groups lists;
  std::vector<Values> values;
  for (const NamedOptionsGroup& group : groups) {
    std::vector<NamedValue> merged = group.options;
    for (const NamedValue& option : options)
      if (std::none_of(group.options.begin(), group.options.end(),
                       [&](const NamedValue& own) { return own.name == option.name; }))
        merged.push_back(option);
    lists.push_back(group.parameters);
    values.emplace_back(maker.name, merged);
  }
  return maker.make(lists, values);
}

}  // namespace tessera::optim
