#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "dist/launch/launch.h"

namespace CLI {
class App;
}

/// The flags of gptlite's command line. A flag that was not given is empty where its value then comes from a
/// preset or a checkpoint.
namespace tessera::gptlite {

/// The model: a preset, and changes to it.
struct ModelFlags {
  std::optional<std::string> preset;
  std::optional<int64_t> n_layer, n_head, n_embd, block_size;
  std::optional<double> dropout;
  std::optional<bool> bias, tie_weights;
};

/// The dataset, and its file or folder.
struct DataFlags {
  std::optional<std::string> dataset;
  std::string data;
};

/// Device, dtype and threads.
struct DeviceFlags {
  std::string device = "cpu";
  std::optional<std::string> dtype;
  std::optional<int> threads;  ///< empty: the library's default (tensor/threads/parallel.h)
};

/// The number of ranks, and how a model is sharded over them.
struct ParallelFlags {
  dist::LauncherJob job = {};  ///< not a flag: what started this process
  std::optional<int> virtual_ranks;
  std::optional<std::string> strategy;
  std::optional<int> shard_group_size;
  std::string auto_wrap = "block";
  int64_t bucket_bytes = 25 << 20;
  std::string backward_prefetch = "pre";
  bool accumulate_communication = false;
  double timeout = 300;  ///< seconds
};

struct TrainFlags {
  ModelFlags model;
  DataFlags data;
  DeviceFlags device;
  ParallelFlags parallel;
  std::optional<int64_t> steps, batch_size, micro_batch_size, warmup_steps;
  std::optional<double> lr, min_lr, weight_decay, beta1, beta2, grad_clip;
  std::optional<uint64_t> seed;
  int64_t activation_checkpoint_interval = 0;
  std::string activation_checkpoint_keep = "attention";
  int64_t eval_interval = 250;
  int64_t eval_steps = 0;  ///< batches of an estimate; 0: the whole validation set
  std::optional<std::string> out;
  std::string resume;  ///< a folder, or "latest"
  int64_t checkpoint_interval = 500;
  int64_t keep = 3;
  bool async_save = false;
  std::string metrics;
  std::string parity_export;
  std::string profile;        ///< file of the trace; empty: no profile
  std::string profile_steps;  ///< "A:B"; empty: the default of `profiled_steps`
  bool explain = false;
  bool quiet = false;
  std::set<std::string> given;  ///< the names of all flags that were given, without dashes
};

struct SampleFlags {
  DeviceFlags device;
  std::string checkpoint = "out";
  std::optional<std::string> prompt;
  int64_t length = 500;
  double temperature = 0.8;
  int64_t top_k = 0;  ///< 0: all characters
  uint64_t seed = 1337;
  bool no_cache = false;
};

struct EvalFlags {
  DataFlags data;
  DeviceFlags device;
  std::string checkpoint = "out";
  int64_t steps = 0;
  std::optional<int64_t> batch_size;
};

struct InfoFlags {
  ModelFlags model;
  std::optional<int64_t> vocabulary, batch_size, micro_batch_size;
  std::string dtype = "fp32";
};

void add_train_flags(CLI::App& command, TrainFlags& flags);
void add_sample_flags(CLI::App& command, SampleFlags& flags);
void add_eval_flags(CLI::App& command, EvalFlags& flags);
void add_info_flags(CLI::App& command, InfoFlags& flags);

/// The names of the flags that were given, without dashes.
std::set<std::string> given_flags(const CLI::App& command);

}  // namespace tessera::gptlite
