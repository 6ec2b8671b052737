#include "dist/comm/process/process_ranks.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <thread>

#include "tests/dist/comm/conformance.h"
#include "tests/dist/comm/forked_ranks.h"

namespace {

using namespace tessera;
using namespace tessera::dist;

void run_all(int ranks, const std::vector<conformance::Case>& cases, const forked::Options& options = {}) {
  for (const conformance::Case& each : cases) {
    CAPTURE(ranks);
    CAPTURE(std::string(each.name));
    const auto errors = forked::run(
        ranks, [&each](forked::Process& process) { each.body(process.communicator); }, options);
    for (const std::string& error : errors) CHECK(error == "");
  }
}

std::set<std::string> names_in_shared_memory() {
  std::set<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
    if (file.path().filename().string().starts_with("tessera")) names.insert(file.path().filename());
  return names;
}

/// Throws unless `condition` holds: the parent does not see doctest's checks of a child.
void expect(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

}  // namespace

TEST_CASE("ranks as processes: every collective, dtype, reduction and size") {
  for (const int ranks : {1, 2, 3, 4, 8}) run_all(ranks, conformance::cases());
}

TEST_CASE("ranks as processes: a rank that makes another call is an error naming both sides") {
  run_all(3, conformance::mismatches());
}

TEST_CASE("ranks as processes: with a full arena, what does not fit goes through staging buffers") {
  // 4 MiB hold the control memory and a few staging buffers; the 64 MB of the largest case do not fit.
  run_all(3, conformance::cases(), {.arena = {.step = int64_t{4} << 20, .limit = int64_t{4} << 20}});
}

TEST_CASE("ranks as processes: inputs in the arena on some ranks only") {
  const auto body = [](forked::Process& process) {
    Communicator& c = process.communicator;
    constexpr int64_t n = 900'000;
    const bool outside = c.rank() == 1;
    const Tensor x = outside ? Tensor::empty({3 * n}, f32) : c.empty({3 * n}, f32);
    expect(process.arena.holds(x.raw_data(), x.nbytes()) != outside, "where a tensor lies");
    for (int64_t i = 0; i < 3 * n; ++i) x.data<float>()[i] = static_cast<float>(i % 1000 + c.rank());
    const Tensor shard = Tensor::empty({n}, f32), all = Tensor::empty({9 * n}, f32);
    c.reduce_scatter(shard, x, Reduction::sum).wait();
    for (int64_t i = 0; i < n; i += 501)
      expect(shard.data<float>()[i] == static_cast<float>(3 * ((c.rank() * n + i) % 1000) + 3),
             "reduce_scatter");
    c.all_gather(all, x).wait();
    for (int64_t i = 0; i < 9 * n; i += 501) {
      const int64_t from = i / (3 * n);
      expect(all.data<float>()[i] == static_cast<float>(i % (3 * n) % 1000 + from), "all_gather");
    }
    c.all_reduce(x, Reduction::max).wait();
    for (int64_t i = 0; i < 3 * n; i += 501)
      expect(x.data<float>()[i] == static_cast<float>(i % 1000 + 2), "all_reduce");
    c.broadcast(shard, 1).wait();
    for (int64_t i = 0; i < n; i += 501)
      expect(shard.data<float>()[i] == static_cast<float>(3 * ((n + i) % 1000) + 3), "broadcast");
  };
  for (const std::string& error : forked::run(3, body)) CHECK(error == "");
}

TEST_CASE("ranks as processes: an arena uses again what is given back") {
  const auto body = [](forked::Process& process) {
    SharedArena& arena = process.arena;
    const int64_t reserved = arena.reserved();
    for (int i = 0; i < 1000; ++i) {
      const Tensor x = process.communicator.empty({1 << 20}, f32),
                   y = process.communicator.empty({1 << 18}, f32);
      x.storage()->release();
      x.storage()->refill();
      expect(arena.holds(x.raw_data(), x.nbytes()) && arena.holds(y.raw_data(), y.nbytes()), "inside");
    }
    expect(arena.reserved() == reserved && arena.outside() == 0, "no more was reserved");
    const Tensor large = process.communicator.empty({64 << 20}, u8);
    expect(arena.reserved() >= reserved + (32 << 20), "a large block makes it grow");
    const Tensor too_large = process.communicator.empty({1 << 30}, u8);
    expect(arena.outside() == 1 << 30, "what does not fit comes from the allocator");
  };
  for (const std::string& error : forked::run(1, body, {.arena = {.limit = int64_t{128} << 20}}))
    CHECK(error == "");
}

TEST_CASE(
    "ranks as processes: an arena that is used to its last byte still has room for staging buffers and "
    "groups") {
  const auto body = [](forked::Process& process) {
    Communicator& c = process.communicator;
    std::vector<Tensor> filling;
    for (int64_t size = int64_t{8} << 20; size >= 64; size /= 2)
      for (bool inside = true; inside;) {
        const Tensor& block = filling.emplace_back(c.empty({size}, u8));
        inside = process.arena.holds(block.raw_data(), size);
      }
    const auto pair = c.split(0, 0, "pair");
    const Tensor x = Tensor::zeros({1'000'000}, f32), y = Tensor::zeros({1'000'000}, f32);
    x.data<float>()[999'999] = y.data<float>()[0] = 1;
    Work first = c.all_reduce(x, Reduction::sum), second = pair->all_reduce(y, Reduction::sum);
    second.wait();
    first.wait();
    expect(x.data<float>()[999'999] == 2 && y.data<float>()[0] == 2, "sums");
  };
  const forked::Options options{.arena = {.step = int64_t{16} << 20, .limit = int64_t{16} << 20},
                                .timeout = std::chrono::milliseconds(2000)};
  for (const std::string& error : forked::run(2, body, options)) CHECK(error == "");
}

TEST_CASE("ranks as processes: the memory account counts bytes of the arena like all others") {
  const auto body = [](forked::Process& process) {
    const auto account = make_intrusive<MemoryAccount>();
    const AccountScope scope(account);
    const CategoryScope category(MemoryCategory::communication);
    const Tensor x = process.communicator.empty({1000}, f32);
    expect(account->count(MemoryCategory::communication).current == 4000, "taken");
    x.storage()->release();
    expect(account->total().current == 0, "released");
    x.storage()->refill();
    x.storage()->set_category(MemoryCategory::gradient);
    expect(account->count(MemoryCategory::gradient).current == 4000, "refilled, in another category");
  };
  for (const std::string& error : forked::run(1, body)) CHECK(error == "");
}

TEST_CASE("ranks as processes: if one has no shared memory none joins, and it is named") {
  for (const std::string& error : forked::run(3, [](forked::Process&) {}, {.without_arena = 1}))
    CHECK(error == "not joined: rank 1 has no shared memory");
}

TEST_CASE("ranks as processes: the exception of one ends the waits of the others with its message") {
  const auto body = [](forked::Process& process) {
    if (process.communicator.rank() == 2) throw std::runtime_error("no milk today");
    process.communicator.barrier().wait();
  };
  const auto errors = forked::run(3, body);
  CHECK(errors[0] == "rank 2 failed: no milk today");
  CHECK(errors[1] == "rank 2 failed: no milk today");
  CHECK(errors[2] == "no milk today");
}

TEST_CASE("ranks as processes: a process that is killed at any moment leaves no file in shared memory") {
  const std::set<std::string> before = names_in_shared_memory();
  for (int round = 0; round < 20; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto arena = SharedArena::create({.step = int64_t{1} << 20});
      if (round % 2 == 0) ::raise(SIGKILL);
      for (;;) ::pause();
    }
    std::this_thread::sleep_for(std::chrono::microseconds(500 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  CHECK(names_in_shared_memory() == before);
}

TEST_CASE("ranks as processes: during communication there is no file in shared memory") {
  const std::set<std::string> before = names_in_shared_memory();
  const auto body = [&](forked::Process& process) {
    process.communicator.barrier().wait();
    expect(names_in_shared_memory() == before, "there is a file");
    process.communicator.barrier().wait();
  };
  for (const std::string& error : forked::run(2, body)) CHECK(error == "");
}

TEST_CASE("shared arena: a place that is not the announced arena is refused, with the reason") {
  const auto arena = SharedArena::create({.step = int64_t{1} << 20});
  const auto refused = [](const ArenaPlace& place, const char* reason) {
    CHECK_THROWS_WITH_AS(SharedArena::open(place), doctest::Contains(reason), OutOfMemoryError);
  };
  ArenaPlace place = arena->place();
  CHECK(SharedArena::open(place).capacity() == arena->capacity());
  ++place.token;
  refused(place, "is not the arena that was announced");
  place = arena->place();
  --place.capacity;
  refused(place, "is not the memory of process");
  place = arena->place();
  ++place.process.start;  // an earlier process of this pid
  refused(place, "is not visible from here");
  place = arena->place();
  ++place.process.kernel;  // a process of this pid on another machine
  refused(place, "is not visible from here");
}

TEST_CASE("ranks as processes: messages of one tag stay in order when there is no staging buffer for some") {
  const auto body = [](forked::Process& process) {
    Communicator& c = process.communicator;
    constexpr int64_t large = 1'000'000;
    constexpr int messages = 12;
    std::vector<Tensor> tensors;
    std::vector<Work> work;
    for (int i = 0; i < messages; ++i) {
      const int64_t n = i % 4 == 3 ? 1 : large;  // one element needs no staging buffer
      const Tensor& x = tensors.emplace_back(Tensor::zeros({n}, f32));
      x.data<float>()[0] = static_cast<float>(c.rank() == 0 ? i : -1);
      if (c.rank() == 0) work.push_back(c.send(x, 1, 7));
    }
    if (c.rank() == 0)
      for (Work& sent : work) sent.wait();
    for (int i = 0; c.rank() == 1 && i < messages; ++i) {
      c.recv(tensors[i], 0, 7).wait();
      expect(tensors[i].data<float>()[0] == static_cast<float>(i), "another message came");
    }
  };
  const forked::Options options{.arena = {.step = int64_t{4} << 20, .limit = int64_t{4} << 20}};
  for (const std::string& error : forked::run(2, body, options)) CHECK(error == "");
}

TEST_CASE("ranks as processes: a rank that is killed inside a collective is named") {
  const auto body = [](forked::Process& process) {
    Communicator& c = process.communicator;
    c.barrier().wait();
    if (c.rank() == 1) ::raise(SIGKILL);
    c.all_reduce(c.empty({50000}, f32), Reduction::sum, {.unit = "blocks.2"}).wait();
  };
  const auto errors = forked::run(2, body, {.timeout = std::chrono::milliseconds(300)});
  CHECK(errors[1] == "killed by signal 9");
  CHECK(errors[0].find("rank 1 is stuck") != std::string::npos);
  CHECK(errors[0].find("all_reduce #1 of unit 'blocks.2'") != std::string::npos);
}
