// What nvcc's objects call before main, and at each launch. The announcements are kept until the runtime is
// loaded.
#include "tensor/cuda/runtime/registration.h"

#include <dlfcn.h>

#include <deque>
#include <vector>

#include "tensor/cuda/runtime/library.h"
#include "tensor/cuda/runtime/symbols.h"

namespace tessera::cuda_runtime {
namespace {

struct Function {
  const char* host;
  char* device;
  const char* name;
  int thread_limit;
};
struct Variable {
  char *host, *device;
  const char* name;
  int is_extern;
  size_t bytes;
  int is_constant, is_global;
};

/// One object's fat binary, with what it announced.
struct Image {
  void* fat_binary = nullptr;
  std::vector<Function> functions;
  std::vector<Variable> variables;
  bool is_complete = false;
  void** handle = nullptr;  ///< the runtime's, once it is loaded
};

/// Never destroyed: objects take their kernels back after main.
std::deque<Image>& images() {
  static auto* list = new std::deque<Image>;
  return *list;
}

template <class F>
F* symbol(void* library, const char* name) {
  return reinterpret_cast<F*>(dlsym(library, name));
}

void hand_over(void* library, Image& image) {
  using Register = void**(void*);
  using RegisterEnd = void(void**);
  using RegisterFunction =
      void(void**, const char*, char*, const char*, int, void*, void*, void*, void*, int*);
  using RegisterVariable = void(void**, char*, char*, const char*, int, size_t, int, int);
  image.handle = symbol<Register>(library, "__cudaRegisterFatBinary")(image.fat_binary);
  for (const Function& f : image.functions)
    symbol<RegisterFunction>(library, "__cudaRegisterFunction")(
        image.handle, f.host, f.device, f.name, f.thread_limit, nullptr, nullptr, nullptr, nullptr, nullptr);
  for (const Variable& v : image.variables)
    symbol<RegisterVariable>(library, "__cudaRegisterVar")(image.handle, v.host, v.device, v.name,
                                                           v.is_extern, v.bytes, v.is_constant, v.is_global);
  symbol<RegisterEnd>(library, "__cudaRegisterFatBinaryEnd")(image.handle);
}

Image& image_of(void** handle) {
  return *reinterpret_cast<Image*>(handle);
}

}  // namespace

void register_kernels(void* library) {
  for (Image& image : images())
    if (image.is_complete) hand_over(library, image);
}

}  // namespace tessera::cuda_runtime

using namespace tessera::cuda_runtime;

extern "C" {

TESSERA_STAND_IN void** __cudaRegisterFatBinary(void* fat_binary) {
  Image& image = images().emplace_back();
  image.fat_binary = fat_binary;
  return reinterpret_cast<void**>(&image);
}
TESSERA_STAND_IN void __cudaRegisterFatBinaryEnd(void** handle) {
  image_of(handle).is_complete = true;
}
TESSERA_STAND_IN void __cudaUnregisterFatBinary(void**) {}  // the process ends; the runtime ends with it
TESSERA_STAND_IN void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name,
                                             int thread_limit, uint3*, uint3*, dim3*, dim3*, int*) {
  image_of(handle).functions.push_back({host, device, name, thread_limit});
}
TESSERA_STAND_IN void __cudaRegisterVar(void** handle, char* host, char* device, const char* name,
                                        int is_extern, size_t bytes, int is_constant, int is_global) {
  image_of(handle).variables.push_back({host, device, name, is_extern, bytes, is_constant, is_global});
}
TESSERA_STAND_IN char __cudaInitModule(void**) {
  return 0;
}
}
