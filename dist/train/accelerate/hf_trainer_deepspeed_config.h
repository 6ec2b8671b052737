#pragma once  // not in tessera.h

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dist/train/accelerate/deepspeed_plugin.h"
#include "dist/train/config/json_document.h"

namespace tessera::training {

/// The training arguments of Transformers from which "auto" values come, with their names and defaults.
struct HfTrainingArguments {
  int64_t world_size = 1;                   ///< ranks
  int64_t per_device_train_batch_size = 8;  ///< samples of a micro-batch
  int64_t gradient_accumulation_steps = 1;  ///< micro-batches of a step
  double max_grad_norm = 1.0;               ///< largest norm of all gradients
  double learning_rate = 5e-5;              ///< of the optimizer, and at the end of a warm-up
  /// Of the optimizer.
  /// @{
  double adam_beta1 = 0.9, adam_beta2 = 0.999, adam_epsilon = 1e-8, weight_decay = 0.0;
  /// @}
  int64_t warmup_steps = 0;   ///< of the schedule; 0: `warmup_ratio` counts
  double warmup_ratio = 0.0;  ///< fraction of all steps, rounded up
  /// The dtype of forward and backward; neither: f32.
  /// @{
  bool fp16 = false, bf16 = false;
  /// @}

  /// The steps of the warm-up in a run of so many steps.
  int64_t get_warmup_steps(int64_t num_training_steps) const;
};

/// Transformers' object of this name: a configuration of DeepSpeed of which "auto" values are filled from
/// training arguments, and other values are compared with them:
///
///     training::HfTrainerDeepSpeedConfig config("ds_config.json");
///     config.trainer_config_process(arguments);
///     config.trainer_config_finalize(arguments, num_training_steps);
///     training::Accelerator accelerator({.deepspeed_plugin = config.plugin()});
///
/// A key is a path: "zero_optimization.stage". Only keys that the configuration has are filled.
class HfTrainerDeepSpeedConfig {
 public:
  /// The path of a file, or its text. Throws ConfigError as `JsonDocument::read`, and for a value that is no
  /// table.
  explicit HfTrainerDeepSpeedConfig(const std::variant<std::string, JsonText>& config);

  /// The value of a key; nothing where there is none. Valid until the next fill.
  std::optional<JsonNode> get_value(std::string_view key) const;
  /// Whether the value is "auto".
  bool is_auto(std::string_view key) const;
  /// Whether there is a value and it is true, or false: a number is true unless it is 0, a text, list or
  /// table unless it is empty. Both are false for a key that is missing or null.
  /// @{
  bool is_true(std::string_view key) const;
  bool is_false(std::string_view key) const;
  /// @}
  /// Whether the stage of ZeRO is 2, or 3.
  /// @{
  bool is_zero2() const { return stage() == 2; }
  bool is_zero3() const { return stage() == 3; }
  /// @}
  /// Whether stage 2 or 3 offloads parameters or the optimizer to "cpu" or "nvme".
  bool is_offload() const;

  /// Fills batch sizes, clipping, options of the optimizer, rates of the warm-up and precision. A value that
  /// is neither "auto" nor that of the arguments is remembered for `trainer_config_finalize`.
  void trainer_config_process(const HfTrainingArguments& arguments);
  /// Fills the steps of the schedule and of its warm-up, and by the model's `hidden_size` the sizes of
  /// messages. Throws ConfigError that lists all values that differ from those of the arguments, of both
  /// calls; and, naming the keys, for "auto" sizes without a `hidden_size`.
  void trainer_config_finalize(const HfTrainingArguments& arguments, int64_t num_training_steps,
                               std::optional<int64_t> hidden_size = {});
  /// The lines of what differs so far: "- ds gradient_clipping=0.5 vs hf max_grad_norm=1".
  const std::vector<std::string>& mismatches() const { return mismatches_; }

  /// The configuration with what was filled; all else, comments too, as it was given.
  const std::string& text() const { return text_; }
  /// The same for an Accelerator.
  DeepSpeedPlugin plugin() const { return {JsonText{text_}}; }

 private:
  struct Value;
  void fill(const char* key, const Value& value, const char* argument = nullptr);
  int64_t stage() const;

  std::string name_, text_;
  std::unique_ptr<JsonDocument> document_;  // of `text_`
  std::vector<std::string> mismatches_;
};

}  // namespace tessera::training
