// What an operation of a stream or a node of a graph does: its parameters, from which the work is made anew
// for each time that it runs.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tools/cuda_sim/machine/block.h"
#include "tools/cuda_sim/runtime/schedule/work.h"
#include "tools/cuda_sim/runtime/state/event.h"

namespace tessera::cuda_sim {

class Runtime;
struct DeviceState;
struct Graph;
struct RegisteredFunction;

struct KernelParameters {
  const RegisteredFunction* function = nullptr;
  LaunchShape shape;
  std::vector<std::byte> bytes;  ///< the parameter block
};

/// Rows of `width` bytes, `height` rows a slice, `depth` slices.
struct CopyParameters {
  uint64_t to = 0, to_pitch = 0, to_slice = 0;
  uint64_t from = 0, from_pitch = 0, from_slice = 0;
  uint64_t width = 0, height = 1, depth = 1;
  cudaMemcpyKind kind = cudaMemcpyDefault;
  /// The bytes of pageable memory, taken when the copy was issued. Null: read when it runs.
  std::shared_ptr<std::vector<std::byte>> staged;
  uint64_t source_hash = 0;  ///< of pinned memory when the copy was issued; 0: not compared
  uint64_t source_writes = 0, host_functions = 0;  ///< counts then
};

struct FillParameters {
  uint64_t to = 0, pitch = 0, slice = 0;
  uint32_t value = 0;
  uint32_t element_bytes = 1;
  uint64_t width = 0;  ///< elements
  uint64_t height = 1, depth = 1;
};

struct HostParameters {
  cudaHostFn_t function = nullptr;
  void* data = nullptr;
};

struct EventParameters {
  cudaEvent_t handle = nullptr;
  std::shared_ptr<Event::Record> record;
  bool is_wait = false;
};

struct ChildParameters {
  std::shared_ptr<Graph> graph;
};

struct EmptyParameters {};

/// An operation of a library that stands in for one of CUDA's.
struct LibraryParameters {
  struct Range {
    uint64_t address = 0, bytes = 0;
    bool writes = false;
  };
  std::string name;
  std::vector<Range> ranges;
  std::shared_ptr<void> data;
  void (*run)(void*) = nullptr;
};

using NodeParameters = std::variant<KernelParameters, CopyParameters, FillParameters, HostParameters,
                                    EventParameters, ChildParameters, EmptyParameters, LibraryParameters>;

cudaGraphNodeType node_type(const NodeParameters& parameters);
/// "kernel fill", "copy of 4000 bytes", ...
std::string node_name(const NodeParameters& parameters);
/// The work of an operation on `device`. Events and child graphs are handled by their callers.
Work make_work(Runtime& runtime, DeviceState& device, const NodeParameters& parameters);

}  // namespace tessera::cuda_sim
