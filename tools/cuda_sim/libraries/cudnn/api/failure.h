// What a call refuses: a status, and a message for cudnnGetLastErrorString.
#pragma once

#include <cudnn.h>

#include <exception>
#include <sstream>
#include <string>
#include <utility>

namespace tessera::cuda_sim::cudnn {

struct Failure {
  cudnnStatus_t status;
  std::string message;
};

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream joined;
  (joined << ... << parts);
  return joined.str();
}

/// Throws a Failure where the condition does not hold.
template <class... Parts>
void require(bool condition, cudnnStatus_t status, const Parts&... parts) {
  if (!condition) throw Failure{status, text(parts...)};
}

/// This thread's last message.
std::string& last_error();

/// Runs a call; a Failure becomes its status and the last message.
template <class Call>
cudnnStatus_t guarded(const char* name, const Call& call) {
  try {
    call();
    return CUDNN_STATUS_SUCCESS;
  } catch (const Failure& failure) {
    last_error() = text(name, ": ", failure.message);
    return failure.status;
  } catch (const std::exception& error) {
    last_error() = text(name, ": ", error.what());
    return CUDNN_STATUS_INTERNAL_ERROR;
  }
}

}  // namespace tessera::cuda_sim::cudnn
