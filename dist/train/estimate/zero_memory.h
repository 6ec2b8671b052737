#pragma once  // not in tessera.h

#include <cstdint>
#include <string>

#include "dist/train/estimate/model_size.h"

/// DeepSpeed's estimates of the memory of model states (parameters, gradients, Adam's state) by the number of
/// parameters alone: activations, buffers, batch size and precision change nothing. Its mixed precision: 2
/// bytes a parameter, 2 a gradient, 4 a master, 8 of Adam's means.
namespace tessera::training {

/// The hardware, and DeepSpeed's factor for buffers in the CPU's memory.
struct ZeroSetup {
  int num_gpus_per_node = 1;              ///< ranks of a node
  int num_nodes = 1;                      ///< nodes
  double additional_buffer_factor = 1.5;  ///< of all CPU memory
  int decimals = 2;                       ///< of the tables' GB
};

/// What stays in the CPU's memory.
struct ZeroOffload {
  bool optimizer = false;   ///< the optimizer's state and step
  bool parameters = false;  ///< parameters too; of ZeRO-3, with `optimizer` alone
  /// Of ZeRO-3: the model is built in shards (zero.Init), and never in full on each rank.
  bool zero_init = true;
};

/// Bytes of model state.
struct ZeroMemory {
  int64_t cpu = 0;  ///< of a node
  int64_t gpu = 0;  ///< of each GPU
};

/// For P parameters, n GPUs of a node, N in all and factor f. With the optimizer offloaded: GPU 2P, CPU
/// P max(4N, 16) f. Else: GPU 4P + 16P/N, CPU 4P n f. Throws ConfigError for a negative size or a setup out
/// of range.
ZeroMemory estimate_zero2_model_states_mem_needs(int64_t total_params, const ZeroOffload& offload,
                                                 const ZeroSetup& setup = {});

/// For P parameters, L of the largest layer, n GPUs of a node, N in all, m nodes and factor f. GPU: 4L, plus
/// 2P/N where parameters are not offloaded, or 18P/N where nothing is. CPU with offload: f P 18/m, or f P
/// 16/m without that of parameters; at least f P 4n without zero_init. Without offload: 4L n f, or 4P n f
/// without zero_init. Throws ConfigError as the function above, and for offloaded parameters without the
/// optimizer.
ZeroMemory estimate_zero3_model_states_mem_needs(int64_t total_params, int64_t largest_layer_params,
                                                 const ZeroOffload& offload, const ZeroSetup& setup = {});

/// The tables that DeepSpeed prints for all variants of offload, from numbers ("cold") or from a module
/// ("live"); columns: per CPU, per GPU, options. Throw ConfigError as the functions above.
/// @{
std::string estimate_zero2_model_states_mem_needs_all_cold(int64_t total_params, const ZeroSetup& setup = {});
std::string estimate_zero2_model_states_mem_needs_all_live(const nn::Module& model,
                                                           const ZeroSetup& setup = {});
std::string estimate_zero3_model_states_mem_needs_all_cold(int64_t total_params, int64_t largest_layer_params,
                                                           const ZeroSetup& setup = {});
std::string estimate_zero3_model_states_mem_needs_all_live(const nn::Module& model,
                                                           const ZeroSetup& setup = {});
/// @}

}  // namespace tessera::training
