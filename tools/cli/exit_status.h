#pragma once

#include <exception>

namespace tessera::tools {

/// The exit statuses of the programs. Other programs rely on these values.
enum ExitStatus : int {
  exit_done = 0,
  exit_failure = 1,        ///< any other error
  exit_bad_arguments = 2,  ///< arguments or configuration; nothing was started
  exit_invalid_input = 3,  ///< invalid data, or an invalid checkpoint
  exit_non_finite = 4,     ///< a loss or gradient that is not finite and cannot be skipped
  exit_rank_lost = 5,      ///< a rank was lost or out of step
  exit_interrupted = 130,  ///< Ctrl-C
  exit_terminated = 143,   ///< SIGTERM
};

/// The status for an error that ended a program, by its type (tensor/error.h, dist/comm/interface/errors.h).
ExitStatus exit_status(const std::exception& error);

}  // namespace tessera::tools
