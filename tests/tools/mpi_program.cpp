#include "tests/tools/mpi_program.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "dist/comm/process/transports.h"

namespace {

std::string find_in_path(const std::string& program) {
  std::istringstream folders(std::getenv("PATH") ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const std::string path = folder + "/" + program; ::access(path.c_str(), X_OK) == 0) return path;
  return "";
}

}  // namespace

std::string mpirun_or_message() {
  const std::string path = tessera::dist::mpi_is_built() ? find_in_path("mpirun") : "";
  if (path.empty())
    MESSAGE("left out: ", tessera::dist::mpi_is_built() ? "there is no mpirun" : "this build is without MPI");
  return path;
}

std::vector<std::string> on_ranks(int ranks, const std::vector<std::string>& arguments) {
  // Leaks of MPI's plugins cannot be suppressed by name: the plugins are unloaded before the leak check.
  std::vector<std::string> all{"-x",
                               "ASAN_OPTIONS=detect_leaks=0",
                               "--oversubscribe",
                               "--allow-run-as-root",
                               "--bind-to",
                               "none",
                               "-n",
                               std::to_string(ranks),
                               std::string(TESSERA_PROGRAM_DIR) + "/gptlite"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "stat");
    std::string line;
    if (!std::getline(file, line)) continue;
    // "pid (name) state parent ...": the name may contain parentheses, the later fields do not.
    std::istringstream rest(line.substr(line.rfind(')') + 1));
    char state = 0;
    pid_t process_parent = 0;
    if (rest >> state >> process_parent && process_parent == parent && state != 'Z')
      children.push_back(static_cast<pid_t>(std::stol(line)));
  }
  std::sort(children.begin(), children.end());
  return children;
}

void send_to_ranks(const ChildProcess& mpirun, int signal) {
  for (const pid_t rank : children_of(mpirun.pid())) ::kill(rank, signal);
}
