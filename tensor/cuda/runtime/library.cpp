#include "tensor/cuda/runtime/library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "tensor/cuda/runtime/registration.h"
#include "tensor/error.h"

namespace tessera::cuda_runtime {
namespace {

constexpr const char* soname = "libcudart.so." TESSERA_CUDA_MAJOR_TEXT;

struct Loaded {
  std::mutex mutex;
  void* handle = nullptr;
  Library library = Library::card;
  std::string path;
};

Loaded& loaded() {
  static Loaded* state = new Loaded;  // lives as long as the kernels that are registered with it
  return *state;
}

/// The folder of the running program.
std::string program_folder() {
  char buffer[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", buffer, sizeof buffer);
  if (length <= 0) return ".";
  const std::string program(buffer, static_cast<size_t>(length));
  return program.substr(0, program.rfind('/'));
}

/// Where a library may be, in the order of search.
std::vector<std::string> candidates(Library library) {
  std::vector<std::string> paths;
  if (library == Library::card) {
    paths.emplace_back(soname);  // as the dynamic linker finds it
    if (const char* folder = std::getenv("CUDA_HOME")) paths.push_back(text(folder, "/lib64/", soname));
    paths.push_back(text(TESSERA_CUDA_LIBRARY_FOLDER, "/", soname));
    paths.push_back(text("/usr/local/cuda/lib64/", soname));
    return paths;
  }
  if (const char* folder = std::getenv("TESSERA_CUDA_SIM_LIBRARY")) return {text(folder, "/", soname)};
  const std::string program = program_folder();
  for (const char* relative : {"/../cuda_sim/", "/../../cuda_sim/", "/../lib/tessera/cuda_sim/"})
    paths.push_back(text(program, relative, soname));
  return paths;
}

std::string list(const std::vector<std::string>& paths) {
  std::string joined;
  for (const std::string& path : paths) joined = text(joined, joined.empty() ? "" : ", ", path);
  return joined;
}

[[noreturn]] void throw_not_found(Library library, const std::vector<std::string>& paths,
                                  const std::string& error) {
  if (library == Library::simulated)
    throw DeviceError(
        text("the simulated card's library was not found in ", list(paths),
             "; build the target tools_cuda_sim_cudart, or set TESSERA_CUDA_SIM_LIBRARY to its folder (",
             error, ")"));
  throw DeviceError(text("CUDA: ", soname, " was not found in ", list(paths),
                         "; install the CUDA runtime, or use the simulated card, cuda:sim (", error, ")"));
}

}  // namespace

void load(Library library) {
  Loaded& state = loaded();
  const std::lock_guard lock(state.mutex);
  if (state.handle != nullptr) {
    require<DeviceError>(state.library == library, "CUDA: ",
                         library == Library::simulated
                             ? "cuda:sim was asked for after a card was used"
                             : "a card was asked for after the simulated one was used",
                         ": a process uses one of them");
    return;
  }
  const std::vector<std::string> paths = candidates(library);
  std::string error;
  for (const std::string& path : paths) {
    if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
      state.handle = handle;
      state.library = library;
      state.path = path;
      break;
    }
    error = dlerror();
  }
  if (state.handle == nullptr) throw_not_found(library, paths, error);
  register_kernels(state.handle);
}

bool is_simulated() {
  Loaded& state = loaded();
  const std::lock_guard lock(state.mutex);
  return state.handle != nullptr && state.library == Library::simulated;
}

void* find_symbol(const char* name) {
  Loaded& state = loaded();
  if (state.handle == nullptr) {
    // A program with CUDA code of its own calls the runtime before Tessera does.
    try {
      load(Library::card);
    } catch (const DeviceError&) {
      return nullptr;
    }
  }
  return dlsym(state.handle, name);
}

void* find_symbol(const char* library, const char* name) {
  require_loaded();
  static std::mutex mutex;
  static auto* handles = new std::map<std::string, void*>;
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = handles->try_emplace(library, nullptr);
  if (is_new) {
    const std::string runtime = path(), folder = runtime.substr(0, runtime.rfind('/') + 1);
    // Beside the runtime first; a runtime that the dynamic linker found has no folder in its path.
    at->second = dlopen((folder + library).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (at->second == nullptr && !is_simulated())
      at->second = dlopen(text(TESSERA_CUDA_LIBRARY_FOLDER, "/", library).c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  return at->second != nullptr ? dlsym(at->second, name) : nullptr;
}

std::string path() {
  Loaded& state = loaded();
  const std::lock_guard lock(state.mutex);
  return state.path;
}

void require_loaded() {
  {
    Loaded& state = loaded();
    const std::lock_guard lock(state.mutex);
    if (state.handle != nullptr) return;
  }
  load(Library::card);
}

}  // namespace tessera::cuda_runtime
