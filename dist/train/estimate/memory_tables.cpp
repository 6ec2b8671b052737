#include "dist/train/estimate/memory_tables.h"

#include <algorithm>

#include "tensor/error.h"
#include "tensor/number_text.h"

namespace tessera::training {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string gigabytes(int64_t bytes, int decimals) {
  return fixed(static_cast<double>(bytes) / static_cast<double>(int64_t{1} << 30), decimals) + "GB";
}

/// Cells between "|", the first column to the left, the others to the right.
std::string columns(const Rows& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string table;
  for (const auto& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string fill(widths[c] - row[c].size(), ' ');
      table += (c == 0 ? "  " + row[c] + fill : " | " + fill + row[c]);
    }
    table += "\n";
  }
  return table;
}

/// Bits of an element; 0 for an unknown type.
int bits_of(const std::string& dtype) {
  if (dtype == "float32") return 32;
  if (dtype == "float16" || dtype == "bfloat16") return 16;
  if (dtype == "int8") return 8;
  return dtype == "int4" ? 4 : 0;
}

}  // namespace

DtypeMemory dtype_memory(int64_t largest_bytes, int64_t total_bytes, const std::string& dtype) {
  const int bits = bits_of(dtype);
  require<ConfigError>(
      bits > 0, "estimate: expected a dtype of float32, float16, bfloat16, int8 and int4, got '", dtype, "'");
  require<ConfigError>(largest_bytes >= 0 && total_bytes >= 0, "estimate: expected 0 bytes or more, got ",
                       largest_bytes, " in the largest layer and ", total_bytes, " in all");
  const auto total = static_cast<double>(total_bytes);
  const double training = bits == 32 ? 4 * total : bits == 16 ? 2 * total : 0;
  return {dtype, static_cast<double>(largest_bytes) * bits / 32, total * bits / 32, training};
}

std::string accelerate_bytes_text(double bytes) {
  const char* units[] = {"bytes", "KB", "MB", "GB", "TB", "PB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 5; ++unit) bytes /= 1024;
  std::string number = fixed(bytes, 2);
  while (number.back() == '0' && number[number.size() - 2] != '.') number.pop_back();
  return number + " " + units[unit];
}

std::string accelerate_memory_table(const std::string& model_name, int64_t largest_bytes, int64_t total_bytes,
                                    std::span<const std::string> dtypes) {
  Rows rows{{"dtype", "Largest Layer", "Total Size", "Training using Adam"}};
  for (const std::string& dtype : dtypes) {
    const DtypeMemory memory = dtype_memory(largest_bytes, total_bytes, dtype);
    rows.push_back({dtype, accelerate_bytes_text(memory.largest), accelerate_bytes_text(memory.total),
                    memory.training > 0 ? accelerate_bytes_text(memory.training) : "N/A"});
  }
  return "Memory usage for loading `" + model_name + "`\n" + columns(rows);
}

std::string stage_memory_table(std::span<const StageSize> stages, const ZeroSetup& setup) {
  Rows rows{{"stage", "params", "base", "ZeRO-2 offload", "ZeRO-2", "ZeRO-3 offload", "ZeRO-3"}};
  for (const StageSize& stage : stages) {
    const auto zero2 = [&](bool offload) {
      return estimate_zero2_model_states_mem_needs(stage.parameters, {.optimizer = offload}, setup).gpu;
    };
    const auto zero3 = [&](bool offload) {
      return estimate_zero3_model_states_mem_needs(stage.parameters, stage.largest_layer,
                                                   {.optimizer = offload, .parameters = offload}, setup)
          .gpu;
    };
    rows.push_back({stage.name, std::to_string(stage.parameters)});
    for (const int64_t bytes : {4 * stage.parameters, zero2(true), zero2(false), zero3(true), zero3(false)})
      rows.back().push_back(gigabytes(bytes, setup.decimals));
  }
  return columns(rows);
}

std::string sharding_memory_table(nn::Module& module, const dist::UnitPolicy& units,
                                  const dist::EstimateOptions& options, int decimals) {
  using dist::Strategy;
  require<ConfigError>(decimals >= 0 && decimals <= 9, "estimate: expected 0 to 9 decimals, got ", decimals);
  Rows rows{{"strategy", "parameters", "gradients", "optimizer", "held", "temporary", "sent per step"}};
  for (const Strategy strategy :
       {Strategy::no_shard, Strategy::shard_optim, Strategy::shard_grad_op, Strategy::full_shard}) {
    dist::EstimateOptions o = options;
    o.strategy = strategy;
    const dist::Estimate e = dist::estimate(module, units, o);
    rows.push_back({name_of(strategy)});
    for (const int64_t bytes : {e.state.parameter, e.state.gradient, e.state.optimizer_state, e.state.total(),
                                e.temporary.total(), e.traffic.total()})
      rows.back().push_back(gigabytes(bytes, decimals));
  }
  return columns(rows);
}

}  // namespace tessera::training
