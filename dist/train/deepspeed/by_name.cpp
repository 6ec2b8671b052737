#include "dist/train/deepspeed/by_name.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

#include "dist/train/config/field_table.h"
#include "optim/by_name/optimizer_by_name.h"
#include "optim/schedules/deepspeed/lr_range_test.h"
#include "optim/schedules/deepspeed/one_cycle_decay.h"
#include "optim/schedules/deepspeed/warmup.h"
#include "tensor/error.h"

namespace tessera::training::deepspeed {
namespace {

optim::OptionValue option_value(const JsonNode& node) {
  if (node.is_bool()) return node.as_bool();
  if (node.is_text()) return node.as_text();
  if (node.is_list()) {
    std::vector<double> numbers;
    for (const JsonNode& element : node.elements()) numbers.push_back(element.as_number());
    return numbers;
  }
  const double number = node.as_number();
  const bool is_whole = node.given().find_first_of(".eE") == std::string::npos;
  if (is_whole) return node.as_integer();
  return number;
}

/// An option of a schedule: its name, and what reads it into the options.
template <class Options>
struct Param {
  const char* name;
  void (*read)(Options&, const JsonNode&);
};

optim::WarmupType warmup_type(const JsonNode& value) {
  if (value.is("log")) return optim::WarmupType::log;
  if (!value.is("linear")) value.fail("\"log\" or \"linear\"");
  return optim::WarmupType::linear;
}

#define TESSERA_NUMBER(name)                                                  \
  {                                                                           \
#name, [](auto& o, const JsonNode& value) { o.name = value.as_number(); } \
  }
#define TESSERA_COUNT(name)                                                    \
  {                                                                            \
#name, [](auto& o, const JsonNode& value) { o.name = value.as_integer(); } \
  }
#define TESSERA_FLAG(name)                                                  \
  {                                                                         \
#name, [](auto& o, const JsonNode& value) { o.name = value.as_bool(); } \
  }
#define TESSERA_TYPE                                                                          \
  {                                                                                           \
    "warmup_type", [](auto& o, const JsonNode& value) { o.warmup_type = warmup_type(value); } \
  }

const std::vector<Param<optim::WarmupOptions>> warmup_params{
    TESSERA_NUMBER(warmup_min_lr), TESSERA_NUMBER(warmup_max_lr), TESSERA_COUNT(warmup_num_steps),
    TESSERA_TYPE, TESSERA_COUNT(last_batch_iteration)};
const std::vector<Param<optim::WarmupDecayOptions>> warmup_decay_params{TESSERA_COUNT(total_num_steps),
                                                                        TESSERA_NUMBER(warmup_min_lr),
                                                                        TESSERA_NUMBER(warmup_max_lr),
                                                                        TESSERA_COUNT(warmup_num_steps),
                                                                        TESSERA_TYPE,
                                                                        TESSERA_COUNT(last_batch_iteration)};
const std::vector<Param<optim::WarmupCosineOptions>> warmup_cosine_params{
    TESSERA_COUNT(total_num_steps),
    TESSERA_NUMBER(warmup_min_ratio),
    TESSERA_COUNT(warmup_num_steps),
    TESSERA_NUMBER(cos_min_ratio),
    TESSERA_TYPE,
    TESSERA_COUNT(last_batch_iteration)};
const std::vector<Param<optim::OneCycleDecayOptions>> one_cycle_params{
    TESSERA_NUMBER(cycle_min_lr),
    TESSERA_NUMBER(cycle_max_lr),
    TESSERA_NUMBER(decay_lr_rate),
    TESSERA_COUNT(cycle_first_step_size),
    TESSERA_COUNT(cycle_second_step_size),
    TESSERA_COUNT(cycle_first_stair_count),
    TESSERA_COUNT(cycle_second_stair_count),
    TESSERA_COUNT(decay_step_size),
    TESSERA_FLAG(cycle_momentum),
    TESSERA_NUMBER(cycle_min_mom),
    TESSERA_NUMBER(cycle_max_mom),
    TESSERA_NUMBER(decay_mom_rate),
    TESSERA_COUNT(last_batch_iteration)};
const std::vector<Param<optim::LRRangeTestOptions>> lr_range_test_params{
    TESSERA_NUMBER(lr_range_test_min_lr), TESSERA_COUNT(lr_range_test_step_size),
    TESSERA_NUMBER(lr_range_test_step_rate), TESSERA_FLAG(lr_range_test_staircase),
    TESSERA_COUNT(last_batch_iteration)};

#undef TESSERA_NUMBER
#undef TESSERA_COUNT
#undef TESSERA_FLAG
#undef TESSERA_TYPE

/// Reads the options of a schedule. `required` must be among them. `automatic(name)` is the value of an
/// "auto" one; nothing where it cannot be.
template <class Options, class Automatic>
Options read_params(const Named& named, const std::vector<Param<Options>>& params,
                    std::initializer_list<const char*> required, Automatic automatic, Options options = {}) {
  std::vector<std::string> names;
  for (const Param<Options>& param : params) names.push_back(param.name);
  for (const auto& given : named.params) {
    const std::string& name = given.first;
    const JsonNode& value = given.second;
    const auto found =
        std::find_if(params.begin(), params.end(), [&](const auto& param) { return param.name == name; });
    if (found == params.end()) throw_unknown(value.place(), name, names);
    if (!value.is("auto") || !automatic(options, name, value)) found->read(options, value);
  }
  for (const char* const name : required) {
    const bool is_given = std::any_of(named.params.begin(), named.params.end(),
                                      [&](const auto& param) { return param.first == name; });
    if (!is_given) named.node.fail(text("params with '", name, "'"));
  }
  return options;
}

/// Calls `make`; an error about values, which has no place in a file, gets it.
template <class Make>
auto with_place(const Named& named, Make make) {
  const auto message = [&](const std::string& what) {
    const std::string place = named.node.place();
    return what.starts_with(named.node.document_name()) ? what : text(place, ": ", what);
  };
  try {
    return make();
  } catch (const NotBuiltError& error) {
    throw NotBuiltError(message(error.what()));
  } catch (const ConfigError& error) {
    throw ConfigError(message(error.what()));
  }
}

}  // namespace

std::unique_ptr<optim::Optimizer> make_optimizer(const Named& named, const ParameterList& parameters) {
  return with_place(named, [&] {
    std::vector<optim::NamedValue> options;
    for (const auto& [name, value] : named.params) options.push_back({name, option_value(value)});
    return optim::make_optimizer(named.type, parameters, options);
  });
}

optim::Schedule make_schedule(const Named& named, int64_t max_steps) {
  const auto none = [](auto&, const std::string&, const JsonNode&) { return false; };
  const auto total = [&](auto& options, const std::string& name, const JsonNode& value) {
    if (name != "total_num_steps") return false;
    if (max_steps < 1) value.fail("a whole number: the program gives no max_steps");
    options.total_num_steps = max_steps;
    return true;
  };
  const auto own_rate = [](optim::WarmupOptions&, const std::string& name, const JsonNode&) {
    return name == "warmup_max_lr";  // nothing: the rate of each group
  };
  return with_place(named, [&]() -> optim::Schedule {
    if (named.type == "WarmupLR") {
      optim::WarmupOptions options;
      options.warmup_max_lr = 0.001;
      for (const auto& [name, value] : named.params)
        if (name == "warmup_max_lr" && value.is("auto")) options.warmup_max_lr.reset();
      return optim::warmup(read_params(named, warmup_params, {}, own_rate, options));
    }
    if (named.type == "WarmupDecayLR")
      return optim::warmup_decay(
          read_params(named, warmup_decay_params, {"total_num_steps"}, total, {.total_num_steps = 0}));
    if (named.type == "WarmupCosineLR")
      return optim::warmup_cosine(
          read_params(named, warmup_cosine_params, {"total_num_steps"}, total, {.total_num_steps = 0}));
    if (named.type == "OneCycle")
      return optim::one_cycle_decay(read_params(named, one_cycle_params, {"cycle_min_lr", "cycle_max_lr"},
                                                none, {.cycle_min_lr = 0, .cycle_max_lr = 0}));
    if (named.type == "LRRangeTest")
      return optim::lr_range_test(read_params(named, lr_range_test_params, {}, none));
    throw_unknown(named.node.place(), named.type,
                  {"WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "OneCycle", "LRRangeTest"});
  });
}

}  // namespace tessera::training::deepspeed
