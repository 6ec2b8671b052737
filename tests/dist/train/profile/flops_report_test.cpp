#include "dist/train/profile/flops_report.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "dist/train/profile/flops_profiler.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "tensor/error.h"
#include "tensor/ops/creation/creation.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using training::FlopsProfile;
using training::ProfileNode;

namespace {

/// A root with two children, in round numbers.
FlopsProfile small_profile() {
  ProfileNode fast{.name = "fast", .kind = "Linear", .options = "2 -> 2", .depth = 1, .parameters = 250};
  fast.calls = 2;
  fast.own_forward = fast.forward = {1'000'000, 4000, 250'000};
  fast.own_backward = fast.backward = {2'000'000, 8000, 500'000};
  ProfileNode slow{.name = "slow", .kind = "Norm", .depth = 1, .parameters = 750};
  slow.calls = 1;
  slow.own_forward = slow.forward = {0, 1000, 750'000};
  slow.own_backward = slow.backward = {0, 1000, 1'500'000};
  ProfileNode root{.name = "(model)", .kind = "Net", .parameters = 1000, .calls = 1};
  root.forward = {1'000'000, 5000, 1'000'000};
  root.backward = {2'000'000, 9000, 2'000'000};
  root.children = {fast, slow};
  return {.root = root,
          .step = 5,
          .nanoseconds = 4'000'000,
          .phases = {{"backward", 2'000'000}, {"optimizer", 500'000}},
          .samples = 8,
          .machine_flops = 40e9};
}

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("flops report: the whole text") {
  const std::string bar(26, '-');
  CHECK(
      training::flops_report(small_profile(), {.top_modules = 2}) ==
      bar + " Flops Profiler " + bar +
          "\n"
          "Profile Summary at step 5:\n"
          "params:                                       1 k\n"
          "fwd MACs:                                     500 kMACs\n"
          "fwd flops:                                    1 M\n"
          "bwd flops:                                    2 M\n"
          "fwd bytes moved:                              5 kB\n"
          "bwd bytes moved:                              9 kB\n"
          "fwd latency:                                  1 ms\n"
          "fwd FLOPS:                                    1 GFLOPS = 2.5% of the machine\n"
          "bwd latency:                                  2 ms\n"
          "bwd FLOPS:                                    1 GFLOPS = 2.5% of the machine\n"
          "fwd+bwd FLOPS:                                1 GFLOPS = 2.5% of the machine\n"
          "step latency:                                 500 us\n"
          "iter latency:                                 4 ms\n"
          "FLOPS:                                        750 MFLOPS = 1.875% of the machine\n"
          "samples/second:                               2000\n" +
          bar + " Aggregated Profile " + bar +
          "\n"
          "Top 2 modules in terms of params, MACs or fwd latency by depth:\n"
          "depth 0:\n"
          "    params      - {'Net': '1 k'}\n"
          "    MACs        - {'Net': '500 kMACs'}\n"
          "    fwd latency - {'Net': '1 ms'}\n"
          "depth 1:\n"
          "    params      - {'Norm': '750', 'Linear': '250'}\n"
          "    MACs        - {'Linear': '500 kMACs', 'Norm': '0 MACs'}\n"
          "    fwd latency - {'Norm': '750 us', 'Linear': '250 us'}\n"
          "Slowest modules, by their own time:\n"
          "    slow (Norm): 2.25 ms = 75% latency, 0 flops = 0% flops, 0 FLOPS = 0% of the machine\n"
          "    fast (Linear): 750 us = 25% latency, 3 Mflops = 100% flops, 4 GFLOPS = 10% of the machine\n" +
          bar + " Detailed Profile " + bar +
          "\n"
          "Net(1 k = 100% Params, 500 kMACs = 100% MACs, 1 ms = 100% latency, 1 GFLOPS = 2.5% of the "
          "machine)\n"
          "  (fast): Linear(250 = 25% Params, 500 kMACs = 100% MACs, 250 us = 25% latency, 4 GFLOPS = 10% of "
          "the "
          "machine, 2 calls, 2 -> 2)\n"
          "  (slow): Norm(750 = 75% Params, 0 MACs = 0% MACs, 750 us = 75% latency, 0 FLOPS = 0% of the "
          "machine)\n");
}

TEST_CASE("flops report: module_depth cuts the tree, detailed = false leaves it out, a plan has no times") {
  const FlopsProfile profile = small_profile();
  const std::string cut = training::flops_report(profile, {.module_depth = 0});
  CHECK(contains(cut, "\nNet("));
  CHECK_FALSE(contains(cut, "(fast): "));
  CHECK_FALSE(contains(cut, "depth 1:"));
  CHECK_FALSE(contains(training::flops_report(profile, {.detailed = false}), "Detailed"));
  FlopsProfile plan = profile;
  plan.is_plan = true;
  const std::string text = training::flops_report(plan);
  CHECK(contains(text, "On meta: no bytes and no times."));
  CHECK_FALSE(contains(text, "latency: "));
  CHECK_FALSE(contains(text, " ms"));
  CHECK(contains(text, "    fast (Linear): 3 Mflops = 100% flops\n"));
  CHECK_THROWS_AS(training::flops_report(profile, {.module_depth = -2}), ConfigError);
  CHECK_THROWS_AS(training::flops_report(profile, {.top_modules = 0}), ConfigError);
}

TEST_CASE("flops report: amounts have three digits, durations their unit") {
  CHECK(training::amount_text(0) == "0");
  CHECK(training::amount_text(999) == "999");
  CHECK(training::amount_text(999.7) == "1 k");
  CHECK(training::amount_text(65'792) == "65.8 k");
  CHECK(training::amount_text(4'194'304) == "4.19 M");
  CHECK(training::amount_text(1.2e12) == "1.2 T");
  CHECK(training::amount_text(12, "B") == "12 B");
  CHECK(training::duration_text(0) == "0 us");
  CHECK(training::duration_text(12'340) == "12.3 us");
  CHECK(training::duration_text(1'500'000) == "1.5 ms");
  CHECK(training::duration_text(2'000'000'000) == "2 s");
}

TEST_CASE("flops profiler: the chosen step is profiled, and no other") {
  nn::Linear linear(4, 4);
  nn::materialize(linear, cpu(), 1);
  const TemporaryFolder folder;
  const std::string path = folder / "reports/profile.txt";
  training::FlopsProfiler profiler(linear, {.enabled = true, .profile_step = 2, .output_file = path}, 1e9);
  for (int64_t step = 0; step < 4; ++step) {
    profiler.begin_step(step);
    CHECK(profiler.is_recording() == (step == 2));
    CHECK(profiling() == (step == 2));
    linear(Variable(ops::ones({1 + step, 4})));
    profiler.end_step(1 + step);
    CHECK(profiler.profile().has_value() == (step >= 2));
    CHECK(std::filesystem::exists(path) == (step >= 2));
  }
  CHECK(profiler.profile()->step == 2);
  CHECK(profiler.profile()->samples == 3);
  CHECK(profiler.profile()->machine_flops == 1e9);
  CHECK(profiler.profile()->root.forward.flops == 2 * 3 * 4 * 4);
  CHECK(contains(profiler.report(), "Profile Summary at step 2:"));
  CHECK(file_text(path) == profiler.report());
}

TEST_CASE("flops profiler: disabled it records nothing") {
  nn::Linear linear(4, 4);
  training::FlopsProfiler profiler(linear, {.profile_step = 0});
  profiler.begin_step(0);
  CHECK_FALSE(profiling());
  profiler.end_step();
  CHECK_FALSE(profiler.profile());
  CHECK_THROWS_AS(profiler.report(), ValueError);
}

TEST_CASE("flops profiler: options out of range and steps out of order are errors with their key") {
  nn::Linear linear(4, 4);
  const auto refused = [&](training::FlopsProfilerOptions options) {
    return message_of<ConfigError>([&] { training::FlopsProfiler(linear, options); });
  };
  CHECK(refused({.profile_step = -1}) == "flops_profiler: profile_step: expected 0 or more, got -1");
  CHECK(refused({.module_depth = -2}) == "flops_profiler: module_depth: expected -1 or more, got -2");
  CHECK(refused({.top_modules = 0}) == "flops_profiler: top_modules: expected 1 or more, got 0");
  training::FlopsProfiler profiler(linear, {.enabled = true, .profile_step = 3});
  CHECK_THROWS_AS(profiler.end_step(), ValueError);
  profiler.begin_step(0);
  CHECK_THROWS_AS(profiler.begin_step(1), ValueError);
  profiler.end_step();
  profiler.begin_step(3);
  CHECK_THROWS_AS(profiler.end_step(), ValueError);  // the module was not called
  CHECK_FALSE(profiling());

  const TemporaryFolder folder;
  nn::materialize(linear, cpu(), 1);
  training::FlopsProfiler unwritable(linear,
                                     {.enabled = true, .profile_step = 0, .output_file = folder / ""});
  unwritable.begin_step(0);
  linear(Variable(ops::ones({1, 4})));
  CHECK(contains(message_of<ConfigError>([&] { unwritable.end_step(); }), "output_file: cannot write"));
  CHECK(unwritable.profile().has_value());
}
