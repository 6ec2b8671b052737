// Asks the cuDNN that the dynamic linker finds for a plan of each graph of the table, without a device: its
// properties are text. Prints a line a graph: "accepted", or the status and the step that refused it.
#include <cstdio>
#include <string>

#include "tests/cuda_sim/libraries/cudnn_graphs/graph.h"
#include "tests/cuda_sim/libraries/cudnn_probe/table.h"

namespace {

/// A card of compute capability 9.0, as CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION has it.
const std::string device =
    R"({"deviceName": "compute capability 9.0", "deviceVer": 900, "driverVer": 13000, "warpSize": 32,
"multiProcessorCount": 132, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
"maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
"reservedSharedMemoryPerBlock": 1024, "maxSharedMemoryPerSM": 233472, "maxCtasPerSM": 32,
"maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 9008, "isTccDriver": 0,
"supportCoopLaunch": 1, "totalGlobalMem": 84929347584, "smClockRateKHz": 1980000,
"memClockRateKHz": 2619000, "l2CacheSize": 52428800, "cudaDeviceId": 0,
"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64]})";

std::string ask(const cudnn_graphs::TableRow& row, bool verbose) {
  try {
    cudnn_graphs::Graph graph;
    row.build(graph);
    if (!row.has_plan) return "accepted";
    const cudnn_graphs::Plan plan(graph, nullptr, device);
    return "accepted" + (verbose ? ", workspace " + std::to_string(plan.workspace_bytes()) : "");
  } catch (const cudnn_graphs::Refused& refused) {
    return std::string("refused: ") + cudnnGetErrorString(refused.status) + " (" + refused.step + ")" +
           (verbose ? " " + refused.message : "");
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a library that crashes shows at which row
  const bool verbose = argc > 1 && std::string(argv[1]) == "--verbose";
  for (const auto& rows : {cudnn_graphs::descriptor_rows(), cudnn_graphs::attention_rows(),
                           cudnn_graphs::convolution_rows(), cudnn_graphs::other_rows()})
    for (const cudnn_graphs::TableRow& row : rows)
      std::printf("%s: %s\n", row.name.c_str(), ask(row, verbose).c_str());
  return 0;
}
