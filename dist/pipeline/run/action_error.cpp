#include "dist/pipeline/run/action_error.h"

#include <typeinfo>

#include "tensor/error.h"

namespace tessera::dist {
namespace {

template <class E>
void rethrow_as(const Error& error, const std::string& message) {
  if (typeid(error) == typeid(E)) throw E(message);
}

template <class... E>
void rethrow_as_one_of(const Error& error, const std::string& message) {
  (rethrow_as<E>(error, message), ...);
}

}  // namespace

void rethrow_in(const PipelineAction& action) {
  try {
    throw;
  } catch (const Error& error) {
    const std::string message = text("pipeline, ", action, " (stage ", action.stage, ", micro-batch ",
                                     action.micro_batch, "): ", error.what());
    rethrow_as_one_of<ShapeError, DTypeError, DeviceError, NotBuiltError, IndexError, ValueError,
                      StorageError, OutOfMemoryError, AutogradError, NonFiniteError, ConfigError, DataError>(
        error, message);
    throw;
  }
}

}  // namespace tessera::dist
