#pragma once

#include <exception>

namespace tessera::tools {

/// What a program's exit status says. Other programs rely on these numbers.
enum ExitStatus : int {
  exit_done = 0,
  exit_failure = 1,        ///< anything that has no number of its own
  exit_bad_arguments = 2,  ///< arguments or configuration; nothing was started
  exit_refused_input = 3,  ///< data or a checkpoint was refused
  exit_non_finite = 4,     ///< a loss or gradient that is not finite and cannot be skipped
  exit_rank_lost = 5,      ///< a rank was lost or out of step
  exit_interrupted = 130,  ///< Ctrl-C
  exit_terminated = 143,   ///< SIGTERM
};

/// The status for an error that ended a program: by its type in tensor/error.h or
/// dist/comm/interface/errors.h.
ExitStatus exit_status(const std::exception& error);

}  // namespace tessera::tools
