#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>

#include "dist/comm/process/transports.h"
#include "dist/comm/remote/communicator.h"
#include "dist/launch/ranks.h"
#include "tensor/memory/account.h"
#include "tensor/profile/profiler.h"
#include "tensor/threads/cores.h"
#include "tensor/threads/parallel.h"

namespace tessera::dist {
namespace {

using std::chrono::milliseconds;

/// This process as a member of its job, from its first launch to its end.
class Membership {
 public:
  static Membership& of(const LauncherJob& job, milliseconds patience) {
    static Membership membership(job, patience);
    return membership;
  }
  /// Leaves the job as MPI wants it, together with all ranks, however long they go on working; unless ranks
  /// were lost or failed.
  ~Membership() {
    if (ended_well_ && ::getpid() == process_ && thread_.leave()) thread_.finish(std::chrono::seconds(10));
  }

  MessageThread& thread() { return thread_; }
  uint64_t next_launch() { return ++launches_; }
  void note_end(bool well) { ended_well_ = well; }

 private:
  Membership(const LauncherJob& job, milliseconds patience)
      : thread_([job] { return make_mpi_wire(job.rank, job.size); }, patience), process_(::getpid()) {}

  MessageThread thread_;
  pid_t process_;
  uint64_t launches_ = 0;
  bool ended_well_ = false;
};

/// Launchers that give their processes what MPI needs to find each other; or the way to get it.
void check_transport(const LauncherJob& job) {
  const std::string line = text("mpirun -n ", job.size, " PROGRAM ...");
  require<NotBuiltError>(
      mpi_is_built(), "rank ", job.rank, " of ", job.size, " that ", job.launcher,
      " started: this build has no MPI, so ranks are threads of one process (virtual ranks); "
      "install libopenmpi-dev and openmpi-bin, configure again and start it by `",
      line, "`");
  const bool has_pmi = std::getenv("PMIX_RANK") || std::getenv("PMI_RANK") || std::getenv("PMI_FD");
  require<ConfigError>(job.launcher == "mpirun" || (job.launcher == "srun" && has_pmi), job.launcher,
                       " started rank ", job.rank, " of ", job.size,
                       ", but gave it no way to reach the others; start it by `", line, "`",
                       job.launcher == "srun" ? " inside the allocation, or by `srun --mpi=pmix`" : "");
}

/// Sets this thread's number of threads while it lives: what the user said, or its share of the cores that it
/// may run on, which are its own alone where the launcher has pinned it.
class ThreadShare {
 public:
  ThreadShare(int asked, int ranks) : before_(num_threads()) {
    if (asked > 0)
      set_num_threads(asked);
    else if (!std::getenv("TESSERA_NUM_THREADS"))
      set_num_threads(std::max(1, available_cores() / ranks));
  }
  ~ThreadShare() { set_num_threads(before_); }
  ThreadShare(const ThreadShare&) = delete;
  ThreadShare& operator=(const ThreadShare&) = delete;

 private:
  int before_;
};

std::string transport_of(const MessageRank& self) {
  const std::string messages = "messages (MPI)";
  if (!self.obstacle().empty()) return text(messages, ", for want of shared memory: ", self.obstacle());
  if (!self.node()) return messages;
  const bool is_one_machine = std::ssize(self.local_ranks()) == self.size();
  return is_one_machine ? "shared memory" : "shared memory in a machine, " + messages + " between machines";
}

}  // namespace

int run_process_rank(const std::function<int(World&)>& body, const LaunchOptions& options,
                     const LauncherJob& job) {
  check_transport(job);
  Membership& membership = Membership::of(job, options.timeout);
  membership.note_end(false);
  const AccountScope account(make_intrusive<MemoryAccount>());
  const ProfilerRankScope row(job.rank);
  const auto self =
      std::make_shared<MessageRank>(membership.thread(), membership.next_launch(),
                                    Deadlines{options.silence, options.timeout}, asked_transport());
  const ThreadShare threads(options.threads, self->ranks_on_cores());
  std::unique_ptr<World> world;  // goes after the others were told
  try {
    world = std::make_unique<World>(make_process_world(self), host_name(), self->local_index(),
                                    static_cast<int>(self->local_ranks().size()), options.device,
                                    transport_of(*self));
    const int result = body(*world);
    world->communicator().barrier().wait();
    self->end_body();
    membership.note_end(true);
    return result;
  } catch (...) {
    self->fail(std::current_exception());
    self->end_body();
    throw;
  }
}

}  // namespace tessera::dist
