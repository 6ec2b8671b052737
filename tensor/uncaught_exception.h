#pragma once

#include <exception>
#include <string>

/// Exceptions that leave `main`, or the function of a thread. Every program that links the library ends for
/// them with one line on stderr, `error: ` and `exception_text`, and the status `exit_status`. It does not
/// call `abort`, so that there is no core file. What was printed to stdout before is written out. Destructors
/// do not run, as in C++ in general.
///
/// The program keeps a terminate handler of its own, whether it sets that before or after. With
/// TESSERA_UNCAUGHT=abort in the environment the library leaves all to C++: a debugger then stops at the
/// place of the `throw`.
namespace tessera {

/// What an exception says, in one line: the message of an Error; of others the type too, as in
/// "std::out_of_range: vector::at"; after "; caused by: " that of each exception nested in it
/// (std::throw_with_nested). A thrown string is its own message. Empty for a null pointer.
std::string exception_text(const std::exception_ptr& exception);

/// The status with which the program ends for an exception: 2 for ConfigError and NotBuiltError, 3 for
/// DataError and CheckpointError, 4 for NonFiniteError, 5 for dist::CommunicationError (ranks lost or out of
/// step), else 1. Only the outermost of nested exceptions counts.
int exit_status(const std::exception_ptr& exception);

/// Changes how uncaught exceptions are reported. `dist` sets one, for the ranks of a run.
struct UncaughtReporter {
  /// The exit status of an exception of a type that the tensor library does not know; 0 for others.
  int (*status)(const std::exception& error) = nullptr;
  /// Prints `line`, or decides that another process does so.
  void (*print)(const std::exception_ptr& exception, const std::string& line) = nullptr;
};
/// Sets the reporter of the process; before `main`, since no lock protects it.
void set_uncaught_reporter(const UncaughtReporter& reporter);

/// Writes `error: `, the line and a line break to stderr in one call, after what is waiting in stdout's
/// buffer.
void print_error_line(const std::string& line);

/// Sets the terminate handler, unless the program has one already. The library calls it before `main`.
/// Returns whether it is set.
bool install_uncaught_handler();

}  // namespace tessera
