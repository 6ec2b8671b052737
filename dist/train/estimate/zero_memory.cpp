#include "dist/train/estimate/zero_memory.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tensor/error.h"

namespace tessera::training {
namespace {

double gpus(const ZeroSetup& setup) {
  return static_cast<double>(setup.num_gpus_per_node) * setup.num_nodes;
}

void check(const char* where, int64_t total, int64_t largest, const ZeroSetup& setup) {
  require<ConfigError>(total >= 0 && largest >= 0, where, ": expected 0 parameters or more, got ", total,
                       " in all and ", largest, " in the largest layer");
  require<ConfigError>(largest <= total, where, ": the largest layer has ", largest,
                       " parameters, more than the ", total, " of the model");
  require<ConfigError>(setup.num_gpus_per_node >= 1 && setup.num_nodes >= 1, where,
                       ": expected at least 1 GPU per node and 1 node, got ", setup.num_gpus_per_node,
                       " and ", setup.num_nodes);
  require<ConfigError>(gpus(setup) <= 1e6, where, ": expected at most 1000000 GPUs, got ",
                       setup.num_gpus_per_node, " on each of ", setup.num_nodes, " nodes");
  require<ConfigError>(setup.additional_buffer_factor > 0 && std::isfinite(setup.additional_buffer_factor),
                       where, ": expected an additional_buffer_factor above 0, got ",
                       setup.additional_buffer_factor);
  require<ConfigError>(setup.decimals >= 0 && setup.decimals <= 9, where, ": expected 0 to 9 decimals, got ",
                       setup.decimals);
  require<ConfigError>(
      32 * static_cast<double>(total) * gpus(setup) * std::max(setup.additional_buffer_factor, 1.0) < 9e18,
      where, ": ", total, " parameters on ", setup.num_gpus_per_node, " GPUs of ", setup.num_nodes,
      " nodes are too many bytes for 64 bits");
}

/// Rounded towards 0, as Python's int().
int64_t whole(double bytes) {
  return static_cast<int64_t>(bytes);
}

std::string setup_lines(const ZeroSetup& setup, const std::string& model) {
  return text("Estimated memory needed for params, optim states and gradients for a:\nHW: Setup with ",
              setup.num_nodes, setup.num_nodes > 1 ? " nodes, " : " node, ", setup.num_gpus_per_node,
              setup.num_gpus_per_node > 1 ? " GPUs" : " GPU", " per node.\nSW: Model with ", model,
              ".\n  per CPU  |  per GPU |   Options\n");
}

std::string row(const ZeroMemory& memory, const std::string& options, int decimals) {
  constexpr double gigabyte = int64_t{1} << 30;
  char cells[96];
  std::snprintf(cells, sizeof cells, " %*.*fGB | %*.*fGB | ", 5 + decimals, decimals,
                static_cast<double>(memory.cpu) / gigabyte, 4 + decimals, decimals,
                static_cast<double>(memory.gpu) / gigabyte);
  return cells + options + "\n";
}

std::string millions(int64_t count) {
  return text(count / 1'000'000, "M");
}

/// Of four characters, as in DeepSpeed's tables.
const char* device(bool is_offloaded) {
  return is_offloaded ? "cpu " : "none";
}

std::string without_trailing_space(std::string options) {
  if (options.back() == ' ') options.pop_back();
  return options;
}

}  // namespace

ZeroMemory estimate_zero2_model_states_mem_needs(int64_t total_params, const ZeroOffload& offload,
                                                 const ZeroSetup& setup) {
  check("estimate_zero2", total_params, 0, setup);
  require<ConfigError>(!offload.parameters, "estimate_zero2: parameters are offloaded by ZeRO-3 alone");
  const auto total = static_cast<double>(total_params);
  const double f = setup.additional_buffer_factor;
  if (offload.optimizer) return {whole(total * std::max(4 * gpus(setup), 16.0) * f), 2 * total_params};
  return {whole(total * 4 * setup.num_gpus_per_node * f), 4 * total_params + whole(16 * total / gpus(setup))};
}

ZeroMemory estimate_zero3_model_states_mem_needs(int64_t total_params, int64_t largest_layer_params,
                                                 const ZeroOffload& offload, const ZeroSetup& setup) {
  check("estimate_zero3", total_params, largest_layer_params, setup);
  require<ConfigError>(offload.optimizer || !offload.parameters,
                       "estimate_zero3: parameters are offloaded with the optimizer, not without");
  const auto total = static_cast<double>(total_params), layer = static_cast<double>(largest_layer_params);
  const double f = setup.additional_buffer_factor, full = 4.0 * setup.num_gpus_per_node;
  const int64_t gathered = 4 * largest_layer_params;
  if (!offload.optimizer)
    return {whole((offload.zero_init ? layer : total) * full * f),
            gathered + whole(18 * total / gpus(setup))};
  const double state = (offload.parameters ? 18.0 : 16.0) / setup.num_nodes;
  return {whole(total * (offload.zero_init ? state : std::max(full, state)) * f),
          gathered + (offload.parameters ? 0 : whole(2 * total / gpus(setup)))};
}

std::string estimate_zero2_model_states_mem_needs_all_cold(int64_t total_params, const ZeroSetup& setup) {
  check("estimate_zero2", total_params, 0, setup);
  std::string table = setup_lines(setup, millions(total_params) + " total params");
  for (const bool optimizer : {true, false})
    table += row(estimate_zero2_model_states_mem_needs(total_params, {.optimizer = optimizer}, setup),
                 without_trailing_space(text("offload_optimizer=", device(optimizer))), setup.decimals);
  return table;
}

std::string estimate_zero2_model_states_mem_needs_all_live(const nn::Module& model, const ZeroSetup& setup) {
  return estimate_zero2_model_states_mem_needs_all_cold(model_size(model).parameters, setup);
}

std::string estimate_zero3_model_states_mem_needs_all_cold(int64_t total_params, int64_t largest_layer_params,
                                                           const ZeroSetup& setup) {
  check("estimate_zero3", total_params, largest_layer_params, setup);
  std::string table = setup_lines(setup, millions(total_params) + " total params, " +
                                             millions(largest_layer_params) + " largest layer params");
  for (const auto& [parameters, optimizer] : {std::pair(true, true), {false, true}, {false, false}})
    for (const bool zero_init : {true, false})
      table += row(estimate_zero3_model_states_mem_needs(total_params, largest_layer_params,
                                                         {optimizer, parameters, zero_init}, setup),
                   text("offload_param=", device(parameters), ", offload_optimizer=", device(optimizer),
                        ", zero_init=", zero_init ? 1 : 0),
                   setup.decimals);
  return table;
}

std::string estimate_zero3_model_states_mem_needs_all_live(const nn::Module& model, const ZeroSetup& setup) {
  const ModelSize size = model_size(model);
  return estimate_zero3_model_states_mem_needs_all_cold(size.parameters, size.largest_layer, setup);
}

}  // namespace tessera::training
