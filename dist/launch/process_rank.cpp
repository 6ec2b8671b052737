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

/// This process as a member of its job, from its first launch to the end of the process.
class Membership {
 public:
  static Membership& of(const LauncherJob& job, milliseconds timeout) {
    static Membership membership(job, timeout);
    return membership;
  }
  /// Leaves the job together with all ranks, as MPI requires, however long they still work, if the last
  /// launch was completed: else ranks were lost or failed.
  ~Membership() {
    if (completed_ && ::getpid() == process_ && thread_.leave()) thread_.finish(std::chrono::seconds(10));
  }

  remote::Thread& thread() { return thread_; }
  uint64_t next_launch() { return ++launches_; }
  void set_completed(bool completed) { completed_ = completed; }

 private:
  Membership(const LauncherJob& job, milliseconds timeout)
      : thread_([job] { return remote::make_mpi_wire(job.rank, job.size); }, timeout), process_(::getpid()) {}

  remote::Thread thread_;
  pid_t process_;
  uint64_t launches_ = 0;
  bool completed_ = false;
};

/// Throws unless MPI can connect the processes of the job, with the command that starts them under MPI.
void check_transport(const LauncherJob& job) {
  const std::string command = text("mpirun -n ", job.size, " PROGRAM ...");
  require<NotBuiltError>(mpi_is_built(), "rank ", job.rank, " of ", job.size, " started by ", job.launcher,
                         ": this build has no MPI, so ranks are threads of one process (virtual ranks); "
                         "install libopenmpi-dev and openmpi-bin, configure again and start it by `",
                         command, "`");
  const bool has_pmi = std::getenv("PMIX_RANK") || std::getenv("PMI_RANK") || std::getenv("PMI_FD");
  require<ConfigError>(job.launcher == "mpirun" || (job.launcher == "srun" && has_pmi), job.launcher,
                       " started rank ", job.rank, " of ", job.size,
                       ", but gave it no connection to the other ranks; start it by `", command, "`",
                       job.launcher == "srun" ? " inside the allocation, or by `srun --mpi=pmix`" : "");
}

/// Sets this thread's number of computing threads while it lives: the user's, or the available cores divided
/// by the `ranks` that share them. A launcher that pins processes gives each rank cores of its own.
class ThreadShare {
 public:
  ThreadShare(int given, int ranks) : before_(num_threads()) {
    if (given > 0)
      set_num_threads(given);
    else if (!std::getenv("TESSERA_NUM_THREADS"))
      set_num_threads(std::max(1, available_cores() / ranks));
  }
  ~ThreadShare() { set_num_threads(before_); }
  ThreadShare(const ThreadShare&) = delete;
  ThreadShare& operator=(const ThreadShare&) = delete;

 private:
  int before_;
};

std::string transport_of(const remote::Rank& self) {
  const std::string remote = "remote transport (MPI)";
  if (!self.no_shared_memory_reason().empty())
    return text(remote, ", without shared memory: ", self.no_shared_memory_reason());
  if (!self.node()) return remote;
  const bool is_one_machine = std::ssize(self.local_ranks()) == self.size();
  return is_one_machine ? "shared memory" : "shared memory in a machine, " + remote + " between machines";
}

}  // namespace

int run_process_rank(const std::function<int(World&)>& body, const LaunchOptions& options,
                     const LauncherJob& job) {
  check_transport(job);
  Membership& membership = Membership::of(job, options.timeout);
  membership.set_completed(false);
  const AccountScope account(make_intrusive<MemoryAccount>());
  const ProfilerRankScope row(job.rank);
  const auto self = std::make_shared<remote::Rank>(
      membership.thread(), membership.next_launch(),
      remote::Deadlines{options.heartbeat_timeout, options.timeout}, requested_transport());
  const ThreadShare threads(options.threads, self->ranks_on_cores());
  std::unique_ptr<World> world;  // destroyed after the other ranks have the failure
  try {
    world = std::make_unique<World>(remote::make_process_world(self), host_name(), self->local_index(),
                                    static_cast<int>(self->local_ranks().size()), options.device,
                                    transport_of(*self));
    const int result = body(*world);
    world->communicator().barrier().wait();
    self->end_body();
    membership.set_completed(true);
    return result;
  } catch (...) {
    self->fail(std::current_exception());
    self->end_body();
    throw;
  }
}

}  // namespace tessera::dist
