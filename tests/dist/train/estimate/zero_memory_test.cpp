#include "dist/train/estimate/zero_memory.h"

#include <doctest/doctest.h>

#include "models/presets.h"
#include "tensor/error.h"
#include "tests/support/error_text.h"

using namespace tessera;
using training::ZeroSetup;

namespace {

/// GPT-lite at 65 characters, and its largest layer: the MLP's first, 768 -> 3072 with bias.
constexpr int64_t P = 86'701'056, L = 768 * 3072 + 3072;
constexpr ZeroSetup eight{.num_gpus_per_node = 8, .num_nodes = 1, .decimals = 3};

}  // namespace

TEST_CASE("zero memory: GPT-lite on 8 GPUs by the formulas 2P, 4P + 16P/8, 4L and 4L + 18P/8") {
  CHECK(L == 2'362'368);
  using training::estimate_zero2_model_states_mem_needs;
  using training::estimate_zero3_model_states_mem_needs;
  CHECK(estimate_zero2_model_states_mem_needs(P, {.optimizer = true}, eight).gpu == 2 * P);
  CHECK(estimate_zero2_model_states_mem_needs(P, {}, eight).gpu == 4 * P + 2 * P);
  CHECK(estimate_zero2_model_states_mem_needs(P, {.optimizer = true}, eight).cpu == P * 32 * 3 / 2);
  CHECK(estimate_zero2_model_states_mem_needs(P, {}, eight).cpu == P * 4 * 8 * 3 / 2);
  CHECK(estimate_zero3_model_states_mem_needs(P, L, {.optimizer = true, .parameters = true}, eight).gpu ==
        4 * L);
  CHECK(estimate_zero3_model_states_mem_needs(P, L, {.optimizer = true}, eight).gpu == 4 * L + 2 * P / 8);
  CHECK(estimate_zero3_model_states_mem_needs(P, L, {}, eight).gpu == 4 * L + 18 * P / 8);
  CHECK(estimate_zero3_model_states_mem_needs(P, L, {}, eight).cpu == L * 4 * 8 * 3 / 2);
}

TEST_CASE("zero memory: several nodes, few GPUs and another factor") {
  using training::estimate_zero2_model_states_mem_needs;
  using training::estimate_zero3_model_states_mem_needs;
  const ZeroSetup two{.num_gpus_per_node = 2, .num_nodes = 4, .additional_buffer_factor = 2};
  // 4 N = 32 is more than 16; on one GPU 16 is more than 4.
  CHECK(estimate_zero2_model_states_mem_needs(800, {.optimizer = true}, two).cpu == 800 * 32 * 2);
  CHECK(estimate_zero2_model_states_mem_needs(800, {.optimizer = true}).cpu == 800 * 16 * 3 / 2);
  CHECK(estimate_zero2_model_states_mem_needs(800, {}, two).gpu == 4 * 800 + 16 * 800 / 8);
  CHECK(estimate_zero2_model_states_mem_needs(800, {}, two).cpu == 4 * 800 * 2 * 2);
  const auto cpu = [&](bool optimizer, bool parameters, bool zero_init) {
    return estimate_zero3_model_states_mem_needs(800, 100, {optimizer, parameters, zero_init}, two).cpu;
  };
  CHECK(cpu(true, true, true) == 800 * 18 / 4 * 2);
  CHECK(cpu(true, true, false) == 800 * 8 * 2);  // 4 n = 8 is more than 18 / 4
  CHECK(cpu(true, false, true) == 800 * 16 / 4 * 2);
  CHECK(cpu(true, false, false) == 800 * 8 * 2);
  CHECK(cpu(false, false, true) == 100 * 4 * 2 * 2);
  CHECK(cpu(false, false, false) == 800 * 4 * 2 * 2);
  // Rounded down, as int() does: 18 * 7 / 8 = 15.75.
  CHECK(estimate_zero3_model_states_mem_needs(7, 1, {}, two).gpu == 4 + 15);
}

TEST_CASE("zero memory: DeepSpeed's documented tables for T5 of 3 billion parameters") {
  // From DeepSpeed's documentation, "Memory Requirements": 2851M parameters, 32M in the largest layer.
  const int64_t parameters = 2'851'598'336, layer = 32'128 * 1024;
  CHECK(training::estimate_zero2_model_states_mem_needs_all_cold(parameters, {.num_gpus_per_node = 8}) ==
        "Estimated memory needed for params, optim states and gradients for a:\n"
        "HW: Setup with 1 node, 8 GPUs per node.\n"
        "SW: Model with 2851M total params.\n"
        "  per CPU  |  per GPU |   Options\n"
        "  127.48GB |   5.31GB | offload_optimizer=cpu\n"
        "  127.48GB |  15.93GB | offload_optimizer=none\n");
  CHECK(
      training::estimate_zero3_model_states_mem_needs_all_cold(parameters, layer, {.num_gpus_per_node = 8}) ==
      "Estimated memory needed for params, optim states and gradients for a:\n"
      "HW: Setup with 1 node, 8 GPUs per node.\n"
      "SW: Model with 2851M total params, 32M largest layer params.\n"
      "  per CPU  |  per GPU |   Options\n"
      "   71.71GB |   0.12GB | offload_param=cpu , offload_optimizer=cpu , zero_init=1\n"
      "  127.48GB |   0.12GB | offload_param=cpu , offload_optimizer=cpu , zero_init=0\n"
      "   63.74GB |   0.79GB | offload_param=none, offload_optimizer=cpu , zero_init=1\n"
      "  127.48GB |   0.79GB | offload_param=none, offload_optimizer=cpu , zero_init=0\n"
      "    1.47GB |   6.10GB | offload_param=none, offload_optimizer=none, zero_init=1\n"
      "  127.48GB |   6.10GB | offload_param=none, offload_optimizer=none, zero_init=0\n");
}

TEST_CASE("zero memory: the tables of GPT-lite from the model, with three decimals") {
  const models::Gpt gpt(models::gpt_lite(65));
  CHECK(training::estimate_zero2_model_states_mem_needs_all_live(gpt, eight) ==
        "Estimated memory needed for params, optim states and gradients for a:\n"
        "HW: Setup with 1 node, 8 GPUs per node.\n"
        "SW: Model with 86M total params.\n"
        "  per CPU  |  per GPU |   Options\n"
        "    3.876GB |   0.161GB | offload_optimizer=cpu\n"
        "    3.876GB |   0.484GB | offload_optimizer=none\n");
  CHECK(training::estimate_zero3_model_states_mem_needs_all_live(gpt, eight) ==
        "Estimated memory needed for params, optim states and gradients for a:\n"
        "HW: Setup with 1 node, 8 GPUs per node.\n"
        "SW: Model with 86M total params, 2M largest layer params.\n"
        "  per CPU  |  per GPU |   Options\n"
        "    2.180GB |   0.009GB | offload_param=cpu , offload_optimizer=cpu , zero_init=1\n"
        "    3.876GB |   0.009GB | offload_param=cpu , offload_optimizer=cpu , zero_init=0\n"
        "    1.938GB |   0.029GB | offload_param=none, offload_optimizer=cpu , zero_init=1\n"
        "    3.876GB |   0.029GB | offload_param=none, offload_optimizer=cpu , zero_init=0\n"
        "    0.106GB |   0.190GB | offload_param=none, offload_optimizer=none, zero_init=1\n"
        "    3.876GB |   0.190GB | offload_param=none, offload_optimizer=none, zero_init=0\n");
  CHECK(training::estimate_zero2_model_states_mem_needs_all_cold(1, {.num_gpus_per_node = 1, .num_nodes = 2})
            .find("HW: Setup with 2 nodes, 1 GPU per node.") != std::string::npos);
}

TEST_CASE("zero memory: negative sizes, setups out of range and contradictions are errors") {
  const auto refused = [](auto body) { return message_of<ConfigError>(body); };
  using training::estimate_zero2_model_states_mem_needs_all_cold;
  using training::estimate_zero3_model_states_mem_needs_all_cold;
  CHECK(contains(refused([] { estimate_zero2_model_states_mem_needs_all_cold(-1); }), "got -1 in all"));
  CHECK(contains(refused([] { estimate_zero3_model_states_mem_needs_all_cold(5, -2); }),
                 "got 5 in all and -2"));
  CHECK(contains(refused([] { estimate_zero3_model_states_mem_needs_all_cold(5, 6); }),
                 "the largest layer has 6 parameters, more than the 5"));
  const auto setup = [&](ZeroSetup s) {
    return refused([&] { estimate_zero2_model_states_mem_needs_all_cold(1000, s); });
  };
  CHECK(contains(setup({.num_gpus_per_node = 0}), "got 0 and 1"));
  CHECK(contains(setup({.num_nodes = -3}), "got 1 and -3"));
  CHECK(contains(setup({.num_gpus_per_node = 2'000'000}), "at most 1000000 GPUs"));
  CHECK(contains(setup({.additional_buffer_factor = 0}), "above 0"));
  CHECK(contains(setup({.decimals = 10}), "decimals"));
  CHECK(contains(refused([] { estimate_zero2_model_states_mem_needs_all_cold(int64_t{1} << 60); }),
                 "too many bytes"));
  CHECK_THROWS_AS(training::estimate_zero3_model_states_mem_needs(5, 1, {.parameters = true}), ConfigError);
  CHECK_THROWS_AS(training::estimate_zero2_model_states_mem_needs(5, {.optimizer = true, .parameters = true}),
                  ConfigError);
}
