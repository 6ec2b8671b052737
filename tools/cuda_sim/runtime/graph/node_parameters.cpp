#include "tools/cuda_sim/runtime/graph/node_parameters.h"

#include "tools/cuda_sim/runtime/memory/copy_work.h"
#include "tools/cuda_sim/runtime/memory/fill_work.h"
#include "tools/cuda_sim/runtime/memory/library_work.h"
#include "tools/cuda_sim/runtime/state/kernels.h"
#include "tools/cuda_sim/runtime/state/runtime.h"

namespace tessera::cuda_sim {

namespace {

template <class... Bodies>
struct Overloaded : Bodies... {
  using Bodies::operator()...;
};
template <class... Bodies>
Overloaded(Bodies...) -> Overloaded<Bodies...>;

}  // namespace

cudaGraphNodeType node_type(const NodeParameters& parameters) {
  return std::visit(Overloaded{[](const KernelParameters&) { return cudaGraphNodeTypeKernel; },
                               [](const CopyParameters&) { return cudaGraphNodeTypeMemcpy; },
                               [](const FillParameters&) { return cudaGraphNodeTypeMemset; },
                               [](const HostParameters&) { return cudaGraphNodeTypeHost; },
                               [](const EventParameters& event) {
                                 return event.is_wait ? cudaGraphNodeTypeWaitEvent
                                                      : cudaGraphNodeTypeEventRecord;
                               },
                               [](const ChildParameters&) { return cudaGraphNodeTypeGraph; },
                               [](const LibraryParameters&) { return cudaGraphNodeTypeKernel; },
                               [](const EmptyParameters&) { return cudaGraphNodeTypeEmpty; }},
                    parameters);
}

std::string node_name(const NodeParameters& parameters) {
  return std::visit(
      Overloaded{[](const KernelParameters& kernel) { return "kernel " + kernel.function->readable_name; },
                 [](const CopyParameters& copy) {
                   return "copy of " + std::to_string(copy.width * copy.height * copy.depth) + " bytes";
                 },
                 [](const FillParameters& fill) {
                   return "fill of " +
                          std::to_string(fill.width * fill.element_bytes * fill.height * fill.depth) +
                          " bytes";
                 },
                 [](const HostParameters&) { return std::string("host function"); },
                 [](const EventParameters& event) {
                   return std::string(event.is_wait ? "wait for an event" : "event record");
                 },
                 [](const ChildParameters&) { return std::string("child graph"); },
                 [](const LibraryParameters& library) { return library.name; },
                 [](const EmptyParameters&) { return std::string("empty node"); }},
      parameters);
}

Work make_work(Runtime& runtime, DeviceState& device, const NodeParameters& parameters) {
  Work work{.name = node_name(parameters)};
  std::visit(Overloaded{[&](const KernelParameters& kernel) {
                          work.run = [&runtime, &device, kernel](Operation operation) {
                            runtime.kernels.run(device, kernel, operation);
                            return true;
                          };
                        },
                        [&](const CopyParameters& copy) {
                          work.run = [&runtime, copy](Operation operation) {
                            run_copy(runtime, copy, operation);
                            return true;
                          };
                        },
                        [&](const FillParameters& fill) {
                          work.run = [&runtime, fill](Operation operation) {
                            run_fill(runtime, fill, operation);
                            return true;
                          };
                        },
                        [&](const HostParameters& host) {
                          work.is_host_function = true;
                          ++runtime.host_functions_issued;
                          work.run = [&runtime, host](Operation) {
                            host.function(host.data);
                            ++runtime.host_functions_ended;
                            return true;
                          };
                        },
                        [&](const EventParameters& event) {
                          if (event.is_wait) return;
                          work.run = [&runtime, record = event.record](Operation) {
                            record->ended_at = runtime.scheduler.ended_operations();
                            return true;
                          };
                        },
                        [&](const LibraryParameters& library) {
                          work.run = [&runtime, library](Operation operation) {
                            run_library(runtime, library, operation);
                            return true;
                          };
                        },
                        [](const ChildParameters&) {}, [](const EmptyParameters&) {}},
             parameters);
  return work;
}

}  // namespace tessera::cuda_sim
