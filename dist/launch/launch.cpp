#include "dist/launch/launch.h"

#include <unistd.h>

#include "dist/launch/rank_report.h"
#include "dist/launch/ranks.h"
#include "tensor/error.h"

namespace tessera::dist {
namespace {

// Here, since every program with ranks links this source.
[[maybe_unused]] const bool has_rank_reporter = install_rank_reporter();

}  // namespace

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

int launch_body(const std::function<int(World&)>& body, const LaunchOptions& options) {
  require<ConfigError>(options.virtual_ranks >= 1, "virtual_ranks: expected at least 1, got ",
                       options.virtual_ranks);
  const LauncherJob job = launcher_job();
  if (job.size == 1) return run_virtual_ranks(body, options);
  require<ConfigError>(options.virtual_ranks == 1, "virtual_ranks: expected 1 under a launcher, got ",
                       options.virtual_ranks, ": this process is rank ", job.rank, " of ", job.size,
                       " started by ", job.launcher);
  return run_process_rank(body, options, job);
}

}  // namespace tessera::dist
