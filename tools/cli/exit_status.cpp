#include "tools/cli/exit_status.h"

#include "dist/comm/interface/errors.h"
#include "tensor/error.h"

namespace tessera::tools {
namespace {

template <class E>
bool is(const std::exception& error) {
  return dynamic_cast<const E*>(&error) != nullptr;
}

}  // namespace

ExitStatus exit_status(const std::exception& error) {
  if (is<ConfigError>(error) || is<NotBuiltError>(error)) return exit_bad_arguments;
  if (is<DataError>(error) || is<CheckpointError>(error)) return exit_invalid_input;
  if (is<NonFiniteError>(error)) return exit_non_finite;
  if (is<dist::CommunicationError>(error)) return exit_rank_lost;
  return exit_failure;
}

}  // namespace tessera::tools
