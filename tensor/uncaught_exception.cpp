#include "tensor/uncaught_exception.h"

#include <cxxabi.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <typeinfo>

#include "tensor/error.h"

namespace tessera {
namespace {

UncaughtReporter reporter;
std::terminate_handler previous_handler = nullptr;

/// The name of a type as C++ writes it. Of an exception that std::throw_with_nested throws, the name of the
/// one that it was given.
std::string type_name(const std::type_info& type) {
  constexpr std::string_view nested = "std::_Nested_exception<";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  const std::string name = status == 0 ? demangled.get() : type.name();
  if (!name.starts_with(nested) || !name.ends_with('>')) return name;
  return name.substr(nested.size(), name.size() - nested.size() - 1);
}

/// The lines of a text as one: after "; ", or after a space where a line ends with punctuation.
std::string one_line(std::string_view message) {
  constexpr std::string_view breaks = "\r\n", spaces = " \t\r\n";
  std::string line;
  while (!message.empty()) {
    const size_t end = message.find_first_of(breaks);
    std::string_view part = message.substr(0, end);
    message.remove_prefix(end == message.npos ? message.size() : end + 1);
    part.remove_prefix(std::min(part.find_first_not_of(spaces), part.size()));
    part = part.substr(0, part.find_last_not_of(spaces) + 1);
    if (part.empty()) continue;
    if (!line.empty())
      line += std::string_view(":;,.").find(line.back()) == std::string_view::npos ? "; " : " ";
    line += part;
  }
  return line;
}

std::string text_of(const std::exception& error) {
  const std::string message = one_line(error.what());
  if (dynamic_cast<const Error*>(&error)) return message;
  const std::string type = type_name(typeid(error));
  // std::bad_alloc and others that the standard library throws have their type as the message.
  if (message.empty() || message == type) return type;
  const bool is_plain = type == "std::runtime_error" || type == "std::logic_error";
  return is_plain ? message : type + ": " + message;
}

/// The message of the exception that is being handled, and of those nested in it.
std::string text_of_current() {
  try {
    throw;
  } catch (const std::exception& error) {
    std::string line = text_of(error);
    try {
      std::rethrow_if_nested(error);
    } catch (...) {
      line += "; caused by: " + text_of_current();
    }
    return line;
  } catch (const std::string& message) {
    return one_line(message);
  } catch (const char* message) {
    return one_line(message ? message : "");
  } catch (...) {
    const std::type_info* const type = abi::__cxa_current_exception_type();
    return type ? "an exception of type " + type_name(*type) : "an exception of another language";
  }
}

template <class E>
bool is(const std::exception& error) {
  return dynamic_cast<const E*>(&error) != nullptr;
}

int status_of(const std::exception& error) {
  if (is<ConfigError>(error) || is<NotBuiltError>(error)) return 2;
  if (is<DataError>(error) || is<CheckpointError>(error)) return 3;
  if (is<NonFiniteError>(error)) return 4;
  const int known_above = reporter.status ? reporter.status(error) : 0;
  return known_above ? known_above : 1;
}

/// Prints the exception, and returns the exit status. Throws nothing.
int report(const std::exception_ptr& exception) noexcept {
  int status = 1;
  try {
    status = exit_status(exception);
    const std::string line = exception_text(exception);
    if (reporter.print)
      reporter.print(exception, line);
    else
      print_error_line(line);
  } catch (...) {
    // No memory for the message.
    constexpr std::string_view line = "error: out of memory\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  }
  return status;
}

[[noreturn]] void end_program() {
  const std::exception_ptr exception = std::current_exception();
  const char* const choice = std::getenv("TESSERA_UNCAUGHT");
  if (!exception || (choice && std::string_view(choice) == "abort")) {
    // No exception: a thread was neither joined nor detached, or the program called std::terminate.
    if (previous_handler) previous_handler();
    std::abort();
  }
  static std::atomic_flag is_reported;
  while (is_reported.test_and_set()) ::pause();  // another thread ends the program
  ::_exit(report(exception));
}

/// Whether a terminate handler is the one that C++ starts with.
bool is_default(std::terminate_handler handler) {
#ifdef __GLIBCXX__
  return !handler || handler == std::abort || handler == &__gnu_cxx::__verbose_terminate_handler;
#else
  (void)handler;  // of other standard libraries its address is not known
  return true;
#endif
}

}  // namespace

std::string exception_text(const std::exception_ptr& exception) {
  if (!exception) return "";
  try {
    std::rethrow_exception(exception);
  } catch (...) {
    return text_of_current();
  }
}

int exit_status(const std::exception_ptr& exception) {
  if (!exception) return 0;
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return status_of(error);
  } catch (...) {
    return 1;
  }
}

void set_uncaught_reporter(const UncaughtReporter& changed) {
  reporter = changed;
}

void print_error_line(const std::string& line) {
  // Not fflush, which waits without end where another thread holds the stream.
  if (::ftrylockfile(stdout) == 0) {
    ::fflush_unlocked(stdout);
    ::funlockfile(stdout);
  }
  const std::string text = "error: " + line + "\n";
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, rest.data(), rest.size());
    if (written <= 0) break;
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

bool install_uncaught_handler() {
  const std::terminate_handler handler = std::get_terminate();
  if (handler == end_program) return true;
  if (!is_default(handler)) return false;
  previous_handler = std::set_terminate(end_program);
  return true;
}

}  // namespace tessera
