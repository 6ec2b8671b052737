// The settings of the simulated card, from the environment.
#pragma once

#include <functional>
#include <ostream>
#include <span>
#include <string>

#include "tools/cuda_sim/machine/device.h"
#include "tools/cuda_sim/runtime/schedule/scheduler.h"

namespace tessera::cuda_sim {

struct RuntimeSettings {
  Settings device;  ///< of every device
  int devices = 1;
  int driver = 0;  ///< as cudaDriverGetVersion gives it, 12040 for 12.4; 0: the version of the runtime
  std::string checks = "all";
  Scheduler::Options schedule;
  bool prints_counters = false;
  std::string counters_file;  ///< to which the counts are appended at exit; empty: none
  int exit_code = 0;          ///< of a program with findings; 0: its own
};

/// One environment variable.
struct SettingRow {
  const char* name;
  const char* values;
  const char* meaning;
  std::function<void(RuntimeSettings&, const std::string&)> read;  ///< throws std::invalid_argument
};

/// All of them; `print_settings` writes them as a table.
std::span<const SettingRow> setting_rows();
void print_settings(std::ostream& out);

/// Reads all settings. `environment` gives a variable's value or null.
/// @throws std::invalid_argument with the variable, its value and what is possible; also for a variable that
/// begins as these do and is none of them, given in `names`.
RuntimeSettings read_settings(const std::function<const char*(const char*)>& environment,
                              std::span<const std::string> names = {});
/// The names of the process's environment variables that begin with TESSERA_CUDA_SIM_.
std::vector<std::string> setting_names_in_environment();

}  // namespace tessera::cuda_sim
