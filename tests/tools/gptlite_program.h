#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

// Shared by the tests of gptlite: calls of it inside the test's process, and a model that trains in a second.

/// The exit status and the output of a call of gptlite.
struct Outcome {
  int status = 0;
  std::string out, err;
};

/// Runs the whole program, from arguments to exit status, in this process.
Outcome gptlite(std::vector<std::string> arguments);

/// "train", the flags of a tiny model on the builtin play without evaluation, and `more`, which replace them.
std::vector<std::string> tiny_training(const std::string& out, std::vector<std::string> more = {});

/// The steps of a metrics file and their losses, in the order of its lines.
std::vector<std::pair<int64_t, double>> losses_of(const std::string& metrics);

/// Whether a text is one line that begins with the program's name.
bool is_one_error_line(const std::string& err);

/// Every file below a folder, with its bytes, to check that nothing changed.
std::map<std::string, std::string> snapshot(const std::string& folder);
