#include "tools/cuda_sim/runtime/configuration/runtime_settings.h"

#include <doctest/doctest.h>

#include <map>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tools/cuda_sim/runtime/configuration/architecture.h"

using namespace tessera::cuda_sim;

namespace {

RuntimeSettings read(const std::map<std::string, std::string>& environment) {
  std::vector<std::string> names;
  for (const auto& [name, value] : environment) names.push_back(name);
  return read_settings(
      [&](const char* name) {
        const auto it = environment.find(name);
        return it == environment.end() ? nullptr : it->second.c_str();
      },
      names);
}

}  // namespace

TEST_CASE("settings have defaults and are read from the environment") {
  const RuntimeSettings defaults = read({});
  CHECK(defaults.devices == 1);
  CHECK(defaults.device.compute_capability == 90);
  CHECK(defaults.exit_code == 0);
  CHECK(defaults.driver == 0);
  const RuntimeSettings settings = read({{"TESSERA_CUDA_SIM_ARCH", "86"},
                                         {"TESSERA_CUDA_SIM_MEMORY", "3M"},
                                         {"TESSERA_CUDA_SIM_DEVICES", "4"},
                                         {"TESSERA_CUDA_SIM_DRIVER", "12.4"},
                                         {"TESSERA_CUDA_SIM_ORDER", "random"},
                                         {"TESSERA_CUDA_SIM_SEED", "17"},
                                         {"TESSERA_CUDA_SIM_CHECKS", "all,-leak"},
                                         {"TESSERA_CUDA_SIM_COUNTERS", "counts.jsonl"},
                                         {"TESSERA_CUDA_SIM_EXIT_CODE", "9"}});
  CHECK(settings.counters_file == "counts.jsonl");
  CHECK_FALSE(settings.prints_counters);
  CHECK(read({{"TESSERA_CUDA_SIM_COUNTERS", "1"}}).prints_counters);
  CHECK(settings.device.compute_capability == 86);
  CHECK(settings.device.memory_bytes == 3u << 20);
  CHECK(settings.devices == 4);
  CHECK(settings.driver == 12040);
  CHECK(settings.schedule.order == RunOrder::random);
  CHECK(settings.schedule.seed == 17);
  CHECK(settings.device.seed == 17);
  CHECK(settings.checks == "all,-leak");
  CHECK(settings.exit_code == 9);
}

TEST_CASE("a bad value is an error that says what is possible") {
  CHECK_THROWS_WITH_AS(read({{"TESSERA_CUDA_SIM_ARCH", "70"}}),
                       "TESSERA_CUDA_SIM_ARCH is '70'; expected one of 80, 86, 89, 90",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(read({{"TESSERA_CUDA_SIM_DEVICES", "many"}}),
                       "TESSERA_CUDA_SIM_DEVICES is 'many'; expected a number from 0 to 16",
                       std::invalid_argument);
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"TESSERA_CUDA_SIM_MEMORY", "4GB"},
                                                        {"TESSERA_CUDA_SIM_MEMORY", "0"},
                                                        {"TESSERA_CUDA_SIM_DRIVER", "12"},
                                                        {"TESSERA_CUDA_SIM_DRIVER", "12.x"},
                                                        {"TESSERA_CUDA_SIM_DRIVER", ".4"},
                                                        {"TESSERA_CUDA_SIM_ORDER", "sometimes"},
                                                        {"TESSERA_CUDA_SIM_BLOCKS", "up"},
                                                        {"TESSERA_CUDA_SIM_CHECKS", "races"},
                                                        {"TESSERA_CUDA_SIM_COUNTERS", "yes"},
                                                        {"TESSERA_CUDA_SIM_SEED", "-1"},
                                                        {"TESSERA_CUDA_SIM_EXIT_CODE", "256"}})
    CHECK_THROWS_AS(read({{name, value}}), std::invalid_argument);
  CHECK_THROWS_AS(read({{"TESSERA_CUDA_SIM_ODER", "lazy"}}), std::invalid_argument);
}

TEST_CASE("the table of settings names each one") {
  std::ostringstream out;
  print_settings(out);
  for (const SettingRow& row : setting_rows()) CHECK(out.str().find(row.name) != std::string::npos);
}

TEST_CASE("occupancy follows the limits of the architecture") {
  const Architecture& hopper = *find_architecture(90);
  const Architecture& ada = *find_architecture(89);
  CHECK(blocks_per_multiprocessor(hopper, 256, 0, 32) == 8);
  CHECK(blocks_per_multiprocessor(hopper, 32, 0, 32) == 32);
  CHECK(blocks_per_multiprocessor(hopper, 1024, 0, 32) == 2);
  CHECK(blocks_per_multiprocessor(ada, 1024, 0, 32) == 1);
  CHECK(blocks_per_multiprocessor(hopper, 128, 100 << 10, 32) == 2);
  CHECK(blocks_per_multiprocessor(ada, 128, 99 << 10, 32) == 1);
  CHECK(blocks_per_multiprocessor(hopper, 256, 0, 128) == 2);
  CHECK(blocks_per_multiprocessor(hopper, 1025, 0, 32) == 0);
  CHECK(find_architecture(70) == nullptr);
}
