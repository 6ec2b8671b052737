#include "tensor/threads/cores.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <string>

#include "tensor/error.h"
#include "tensor/threads/parallel.h"
#include "tests/support/temporary_folder.h"

namespace tessera {
namespace {

/// A folder with files like those of the system.
class FakeSystem {
 public:
  FakeSystem& write(const std::string& path, const std::string& content) {
    root_.write(path, content);
    return *this;
  }
  std::optional<double> limit() const { return cgroup_cpu_limit(root_ / "membership", root_ / "mount"); }

 private:
  TemporaryFolder root_;
};

}  // namespace

TEST_CASE("cores: at least one, no more than the affinity mask allows") {
  CHECK(available_cores() >= 1);
  CHECK(available_cores() <= affinity_cores());
}

// CTest starts this with OMP_PROC_BIND=true: an OpenMP runtime has then bound the main thread when it was
// loaded.
TEST_CASE("cores: threads have all processors of the process that started this one, bound by OpenMP or not") {
  if (std::getenv("OMP_PROC_BIND") == nullptr) {
    MESSAGE("skipped: OMP_PROC_BIND binds no thread");
    return;
  }
  cpu_set_t parent;
  REQUIRE(sched_getaffinity(getppid(), sizeof parent, &parent) == 0);
  const int threads = num_threads();
  set_num_threads(3);
  std::array<int, 3> counts{};
  parallel_for(3, 1, [&](int64_t begin, int64_t end) {
    cpu_set_t mine;
    sched_getaffinity(0, sizeof mine, &mine);
    for (int64_t i = begin; i < end; ++i) counts[static_cast<size_t>(i)] = CPU_COUNT(&mine);
  });
  set_num_threads(threads);
  for (const int count : counts) CHECK(count == CPU_COUNT(&parent));
  CHECK(affinity_cores() == CPU_COUNT(&parent));
}

TEST_CASE("cores: no limit without control groups, or where none sets one") {
  CHECK(FakeSystem().limit() == std::nullopt);
  CHECK(FakeSystem().write("membership", "0::/\n").limit() == std::nullopt);
  CHECK(FakeSystem().write("membership", "0::/\n").write("mount/cpu.max", "max 100000\n").limit() ==
        std::nullopt);
  CHECK(FakeSystem()
            .write("membership", "4:cpu,cpuacct:/\n")
            .write("mount/cpu,cpuacct/cpu.cfs_quota_us", "-1\n")
            .write("mount/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
            .limit() == std::nullopt);
  CHECK(FakeSystem().write("membership", "nonsense\n\n:\n").write("mount/cpu.max", "what?").limit() ==
        std::nullopt);
}

TEST_CASE("cores: version 2, the smallest limit from the group up to the root") {
  FakeSystem system;
  system.write("membership", "0::/slice/job\n").write("mount/slice/job/cpu.max", "300000 100000\n");
  CHECK(system.limit() == 3.0);
  system.write("mount/slice/cpu.max", "150000 100000\n");
  CHECK(system.limit() == 1.5);
  system.write("mount/cpu.max", "max 100000\n");
  CHECK(system.limit() == 1.5);
  system.write("mount/slice/job/cpu.max", "25000 50000\n");
  CHECK(system.limit() == 0.5);
}

TEST_CASE("cores: a container that sees its own group as the root, under the host's path") {
  CHECK(FakeSystem()
            .write("membership", "0::/system.slice/docker-1234.scope\n")
            .write("mount/cpu.max", "200000 100000")
            .limit() == 2.0);
  CHECK(FakeSystem()
            .write("membership", "5:memory:/docker/1\n4:cpuacct,cpu:/docker/1\n0::/docker/1\n")
            .write("mount/cpu/cpu.cfs_quota_us", "250000\n")
            .write("mount/cpu/cpu.cfs_period_us", "100000\n")
            .limit() == 2.5);
}

TEST_CASE("cores: version 1 together with version 2's unified hierarchy") {
  FakeSystem system;
  system.write("membership", "3:cpuset:/a\n1:cpu:/a/b\n0::/c\n")
      .write("mount/cpu/a/b/cpu.cfs_quota_us", "400000")
      .write("mount/cpu/a/b/cpu.cfs_period_us", "100000");
  CHECK(system.limit() == 4.0);
  system.write("mount/cpuset/a/cpu.cfs_quota_us", "1").write("mount/cpuset/a/cpu.cfs_period_us", "100000");
  CHECK(system.limit() == 4.0);
  system.write("mount/unified/c/cpu.max", "100000 100000");
  CHECK(system.limit() == 1.0);
}

TEST_CASE("cores: teams lie side by side on the processors that are allowed") {
  const std::vector<int> allowed{2, 3, 5, 7, 11, 13};
  CHECK(processors_of_team(allowed, 0, 4) == std::vector<int>{2, 3, 5, 7});
  CHECK(processors_of_team(allowed, 4, 2) == std::vector<int>{11, 13});
  CHECK(processors_of_team(allowed, 4, 4) == std::vector<int>{11, 13, 2, 3});
  CHECK(processors_of_team(allowed, 0, 7).empty());
  CHECK(std::ssize(allowed_processors()) == affinity_cores());
}

TEST_CASE("cores: a pinned team takes the first places that are free") {
  TeamPlaces places;
  CHECK(places.take(2) == 0);
  CHECK(places.take(3) == 2);
  CHECK(places.take(4) == 5);
  places.leave(0);
  CHECK(places.take(3) == 9);  // two free places are too few
  CHECK(places.take(2) == 0);
  places.leave(2);
  CHECK(places.take(1) == 2);
  CHECK(places.take(2) == 3);
  places.leave(7);  // of no team
  CHECK(places.take(1) == 12);
}

TEST_CASE("cores: the number of a process on its machine is what its launcher set") {
  const auto with = [](const std::string& set, const char* value) {
    return process_of_machine([&](const char* name) { return set == name ? value : nullptr; });
  };
  CHECK(with("", "3") == 0);
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "LOCAL_RANK"})
    CHECK(with(name, "3") == 3);
  CHECK(with("LOCAL_RANK", "three") == 0);
  CHECK(with("LOCAL_RANK", "-1") == 0);
  CHECK(with("LOCAL_RANK", "") == 0);
}

TEST_CASE("cores: a number of threads is an integer from 1 to 4096") {
  CHECK(parse_thread_count("1") == 1);
  CHECK(parse_thread_count("17") == 17);
  CHECK(parse_thread_count("4096") == 4096);
  for (const char* wrong : {"", "0", "-1", "two", "2x", " 2", "2.5", "99999999999", "4097"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_thread_count(wrong), ConfigError);
  }
}

}  // namespace tessera
