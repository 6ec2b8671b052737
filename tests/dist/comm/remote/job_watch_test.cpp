#include "dist/comm/remote/job_watch.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <thread>

#include "dist/comm/interface/errors.h"

namespace {

using namespace tessera;
using namespace tessera::dist;
using namespace tessera::dist::remote;
using std::chrono::milliseconds;

constexpr milliseconds an_hour{3'600'000};

/// A child process that only waits; it is killed with this object.
class Child {
 public:
  Child() {
    int pipe[2];
    REQUIRE(::pipe(pipe) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const ProcessPlace own = this_process();
      if (::write(pipe[1], &own, sizeof own) != sizeof own) ::_exit(1);
      for (;;) ::pause();
    }
    char bytes[sizeof place_];
    REQUIRE(::read(pipe[0], bytes, sizeof bytes) == sizeof bytes);
    std::memcpy(&place_, bytes, sizeof bytes);
    ::close(pipe[0]);
    ::close(pipe[1]);
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  const ProcessPlace& place() const { return place_; }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
  ProcessPlace place_;
};

/// The failure that the watch finds within two seconds; "" if none.
std::string found_failure(JobWatch& watch) {
  for (int i = 0; i < 200 && !watch.find_lost(); ++i) std::this_thread::sleep_for(milliseconds(10));
  return watch.failure().message;
}

}  // namespace

TEST_CASE("process place: a process differs from one of another start, kernel or namespace") {
  const ProcessPlace own = this_process();
  CHECK(own.pid == ::getpid());
  CHECK(is_running(own));
  Child child;
  CHECK(child.place().shares_pids_with(own));
  CHECK(is_running(child.place()));
  ProcessPlace other = own;
  ++other.start;
  CHECK(!is_running(other));
  CHECK(open_process(other) == -1);
  other = own;
  ++other.pid_namespace;
  CHECK(other.shares_kernel_with(own));
  CHECK(!other.shares_pids_with(own));
  CHECK(!is_running(other));
  other = own;
  ++other.kernel;
  CHECK(!other.shares_kernel_with(own));
  CHECK(!other.shares_pids_with(own));
  child.end();
  CHECK(!is_running(child.place()));
}

TEST_CASE("job watch: the end of a process is detected at once, also before all places are known") {
  Child child;
  JobWatch watch(0, 3, {.heartbeat_timeout = an_hour, .timeout = an_hour});
  watch.set_process(1, child.place());
  CHECK(!watch.find_lost());
  child.end();
  CHECK(found_failure(watch) == "rank 1 is lost: its process has ended");
  CHECK_THROWS_AS(watch.throw_if_failed(), RankLostError);
}

TEST_CASE("job watch: a process that ended before it could be watched is detected too") {
  Child child;
  child.end();
  JobWatch watch(0, 2, {.heartbeat_timeout = an_hour, .timeout = an_hour});
  watch.set_process(1, child.place());
  CHECK(found_failure(watch) == "rank 1 is lost: its process has ended");
}

TEST_CASE("job watch: a rank that has left is lost in a launch, but not for ranks that leave too") {
  JobWatch watch(0, 3, {.heartbeat_timeout = an_hour, .timeout = an_hour});
  watch.record_leave(2);
  CHECK(found_failure(watch) == "rank 2 is lost: its program has ended without this launch");
  JobWatch leaving(0, 2, {.heartbeat_timeout = milliseconds(20), .timeout = an_hour});
  leaving.stop_watching(1);
  std::this_thread::sleep_for(milliseconds(50));
  CHECK(!leaving.find_lost());
}

TEST_CASE("job watch: a rank without progress counts as running only while it sends heartbeats") {
  const CallHeader call{.sequence = 3, .kind = CallKind::barrier};
  JobWatch watch(0, 2, {.heartbeat_timeout = an_hour, .timeout = milliseconds(30)});
  const auto message = [&] {
    try {
      for (;;) watch.check(1, call);
    } catch (const RankLostError& error) {
      return std::string(error.what());
    }
  };
  CHECK(message().starts_with("rank 1 is lost: its process runs, but has begun no call for 0.03 s"));
  JobWatch silent(0, 2, {.heartbeat_timeout = milliseconds(2000), .timeout = milliseconds(700)});
  try {
    for (;;) silent.check(1, call);
  } catch (const RankLostError& error) {
    CHECK(std::string(error.what()).starts_with("rank 1 is lost: it has sent no heartbeat for "));
  }
}
