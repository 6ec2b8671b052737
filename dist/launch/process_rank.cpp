#include "dist/launch/ranks.h"
#include "tensor/error.h"

namespace tessera::dist {

int run_process_rank(const std::function<int(World&)>&, const LaunchOptions&, const LauncherJob& job) {
  throw NotBuiltError(text("rank ", job.rank, " of ", job.size, " (", job.launcher,
                           "): this build runs ranks as threads alone, by --virtual-ranks"));
}

}  // namespace tessera::dist
