#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tests/tools/child_process.h"

/// What the tests of gptlite as processes share.

/// Where mpirun is; empty where it is not, or this build is without MPI: then a message says that the test is
/// left out, and why.
std::string mpirun_or_message();

/// mpirun's arguments to run gptlite with `arguments` on `ranks` ranks of this machine, more than there are
/// cores if need be.
std::vector<std::string> on_ranks(int ranks, const std::vector<std::string>& arguments);

/// The processes that a process started and that still run, in the order of their ids: mpirun's ranks.
std::vector<pid_t> children_of(pid_t parent);
