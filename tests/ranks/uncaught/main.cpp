// usage: uncaught CASE
// A user's program that lets an exception leave `main` or a thread: uncaught.sh compares what it prints.
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "dist/launch/launch.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/tensor.h"
#include "tensor/uncaught_exception.h"

using namespace tessera;

namespace {

void add_wrong_shapes() {
  ops::add(Tensor::zeros({2, 3}, f32), Tensor::zeros({4}, f32));
}

void throw_nested() {
  try {
    try {
      throw std::out_of_range("no entry 7");
    } catch (...) {
      std::throw_with_nested(std::invalid_argument("row 3"));
    }
  } catch (...) {
    std::throw_with_nested(DataError("table.csv: 2 rows are wrong:\n  row 3\n  row 7"));
  }
}

struct OwnError : Error {
  using Error::Error;
};

void throw_in_thread() {
  std::thread([] { throw ValueError("from a thread"); }).join();
}

void throw_in_two_threads() {
  const auto fail = [] { throw ValueError("from one of two threads"); };
  std::thread first(fail), second(fail);
  first.join();
  second.join();
}

void leave_noexcept() noexcept {
  const std::function<void()> fail = [] { throw ValueError("out of a function that is noexcept"); };
  fail();
}

void print_before() {
  std::printf("step 1");  // in the buffer of stdout
  throw NonFiniteError("loss: expected a finite value, got nan at step 1");
}

void install_own_handler() {
  std::set_terminate([] {
    std::fputs("the program's own handler\n", stderr);
    std::_Exit(9);
  });
  throw ValueError("not printed");
}

void join_no_thread() {
  const std::thread thread([] { std::this_thread::sleep_for(std::chrono::minutes(1)); });
}

void catch_and_print() {
  try {
    throw_nested();
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    std::fprintf(stderr, "caught: %s; status %d\n", exception_text(error).c_str(), exit_status(error));
  }
}

/// On `ranks` threads, or on the processes of mpirun: an exception of one rank, while the others wait for it.
void fail_on_one(int ranks) {
  dist::launch(
      [](dist::World& world) {
        if (world.rank() == world.size() - 1) throw DataError("corpus.txt: expected text, got an empty file");
        world.communicator().barrier().wait();
      },
      {.virtual_ranks = ranks});
}

void fail_on_all(int ranks) {
  dist::launch([](dist::World&) { add_wrong_shapes(); }, {.virtual_ranks = ranks});
}

void fail_after_launch(int ranks) {
  dist::launch([](dist::World&) {}, {.virtual_ranks = ranks});
  throw CheckpointError("out/last: expected a folder");
}

void fail_after_launch_on_one() {
  int rank = 0;
  dist::launch([&rank](dist::World& world) { rank = world.rank(); });
  if (rank == 1) throw ValueError("after the launch");
}

void make_other_call() {
  dist::launch([](dist::World& world) {
    const Tensor x = Tensor::zeros({world.rank() == 1 ? 3 : 2}, f32);
    world.communicator().all_reduce(x, dist::Reduction::sum).wait();
  });
}

const std::map<std::string, std::function<void()>> cases{
    {"error", add_wrong_shapes},
    {"config", [] { throw ConfigError("lr: expected a positive number, got -1"); }},
    {"own", [] { throw OwnError("the program's own error"); }},
    {"runtime", [] { throw std::runtime_error("plain"); }},
    {"standard", [] { std::map<int, int>().at(3); }},
    {"memory", [] { throw std::bad_alloc(); }},
    {"nested", throw_nested},
    {"text", [] { throw "a thrown text"; }},
    {"string", [] { throw std::string("a thrown string"); }},
    {"number", [] { throw 7; }},
    {"thread", throw_in_thread},
    {"threads", throw_in_two_threads},
    {"noexcept", leave_noexcept},
    {"printed", print_before},
    {"handler", install_own_handler},
    {"unjoined", join_no_thread},
    {"caught", catch_and_print},
    {"one-of-4-threads", [] { fail_on_one(4); }},
    {"all-of-4-threads", [] { fail_on_all(4); }},
    {"one-thread", [] { fail_on_one(1); }},
    {"after-threads", [] { fail_after_launch(4); }},
    {"one-rank", [] { fail_on_one(1); }},
    {"all-ranks", [] { fail_on_all(1); }},
    {"before-launch", [] { throw ConfigError("--steps: expected a number, got 'ten'"); }},
    {"after-launch", [] { fail_after_launch(1); }},
    {"after-launch-on-one", fail_after_launch_on_one},
    {"other-call", make_other_call},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 64;
  cases.at(argv[1])();
  return 0;
}
