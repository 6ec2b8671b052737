#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tests/tools/child_process.h"

// Shared by the tests of gptlite as processes.

/// The path of mpirun. Empty where there is none, or this build has no MPI: then a message gives the reason
/// for which the test is left out.
std::string mpirun_or_message();

/// mpirun's arguments to run gptlite with `arguments` on `ranks` ranks of this machine, which may be more
/// than its cores.
std::vector<std::string> on_ranks(int ranks, const std::vector<std::string>& arguments);

/// The running children of a process, in the order of their ids: mpirun's ranks.
std::vector<pid_t> children_of(pid_t parent);

/// Sends `signal` to every rank of a running mpirun, as a job scheduler does: not every mpirun passes on what
/// it gets itself.
void send_to_ranks(const ChildProcess& mpirun, int signal);
