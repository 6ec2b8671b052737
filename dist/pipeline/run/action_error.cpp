#include "dist/pipeline/run/action_error.h"

#include <stdexcept>
#include <typeinfo>

#include "autograd/recompute/stores.h"
#include "tensor/arguments/linalg.h"
#include "tensor/error.h"

namespace tessera::dist {
namespace {

template <class E>
void rethrow_as(const std::exception& error, const std::string& message) {
  if (typeid(error) == typeid(E)) throw E(message);
}

template <class... E>
void rethrow_as_one_of(const std::exception& error, const std::string& message) {
  (rethrow_as<E>(error, message), ...);
}

}  // namespace

std::string place_text(const PipelineAction& action) {
  return text(action, " (stage ", action.stage, ", micro-batch ", action.micro_batch, ")");
}

void rethrow_in(const PipelineAction& action, size_t live) {
  try {
    throw;
  } catch (const std::exception& error) {
    std::string message = text("pipeline, ", place_text(action), ": ", error.what());
    if (live > 0 && typeid(error) == typeid(OutOfMemoryError))
      message += text("; this rank holds ", live, live == 1 ? " micro-batch" : " micro-batches",
                      ": activation checkpointing, smaller micro-batches and more stages take less "
                      "(`tessera plan` predicts how much)");
    rethrow_as_one_of<ShapeError, DTypeError, DeviceError, NotBuiltError, IndexError, ValueError,
                      StorageError, OutOfMemoryError, StoreBudgetError, LinAlgError, AutogradError,
                      NonFiniteError, ConfigError, DataError, CheckpointError, Error>(error, message);
    rethrow_as_one_of<std::logic_error, std::invalid_argument, std::domain_error, std::length_error,
                      std::out_of_range, std::runtime_error, std::range_error, std::overflow_error,
                      std::underflow_error>(error, message);
    throw;
  }
}

}  // namespace tessera::dist
