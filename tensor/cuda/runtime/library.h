#pragma once  // internal

#include <string>

/// The CUDA runtime is loaded when a CUDA device is first used, not when the program starts: one binary runs
/// on machines without driver or runtime, and the simulated card can take the runtime's place.
namespace tessera::cuda_runtime {

/// What stands behind the names of the CUDA runtime.
enum class Library : uint8_t {
  card,       ///< libcudart of the system
  simulated,  ///< libcudart of tools/cuda_sim
};

/// Loads `library`. Does nothing when it is loaded. Throws DeviceError where it is not found, naming the
/// places that were searched, and where the other one is loaded already: a process has one.
void load(Library library);
/// Loads the runtime of the system unless one is loaded, and checks that there is a device. Throws
/// DeviceError.
void require_loaded();
/// Whether a runtime is loaded, and it is the simulated card's.
bool is_simulated();
/// The address of a symbol of the runtime that is loaded, else of the system's, which is loaded now; null
/// where there is none.
void* find_symbol(const char* name);
/// The address of a symbol of a library that goes with the runtime, "libcublasLt.so.13": of the system's, or
/// of the one that stands in for it beside the simulated runtime. Null where there is none. The library is
/// loaded at its first use.
void* find_symbol(const char* library, const char* name);
/// The path from which the runtime was loaded; empty where none was.
std::string path();

}  // namespace tessera::cuda_runtime
