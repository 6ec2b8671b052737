#include "nn/summary.h"

#include <algorithm>
#include <unordered_map>

#include "autograd/grad_mode.h"
#include "tensor/profile/cost.h"

namespace tessera::nn {
namespace {

/// The counters at the start of a call.
struct CallStart {
  int64_t flops;
  int64_t bytes;
};

/// 1234567 as "1,234,567".
std::string with_commas(int64_t count) {
  std::string digits = std::to_string(count);
  for (int64_t i = static_cast<int64_t>(digits.size()) - 3; i > 0; i -= 3) digits.insert(i, ",");
  return digits;
}

/// With a decimal prefix: "1.5 MB".
std::string with_prefix(double value, const char* unit) {
  constexpr const char* prefixes[] = {"", "k", "M", "G", "T", "P"};
  int p = 0;
  while (value >= 1000 && p < 5) {
    value /= 1000;
    ++p;
  }
  return text(value, " ", prefixes[p], unit);
}

std::string padded(std::string cell, size_t width) {
  if (cell.size() < width) cell.append(width - cell.size(), ' ');
  return cell + "  ";
}

}  // namespace

Summary summarize(Module& module, const std::function<void()>& call) {
  Summary result;
  Cost cost;
  const auto plan = make_intrusive<MemoryAccount>();
  std::unordered_map<Module*, size_t> row_of;
  std::unordered_map<Module*, std::vector<CallStart>> open_calls;
  std::vector<HookHandle> handles;

  module.for_each([&](Module& submodule) {
    SummaryRow row{.name = &submodule == &module ? "(model)" : submodule.full_name(),
                   .kind = submodule.kind(),
                   .options = submodule.describe_options()};
    for (Module* above = &submodule; above != &module; above = above->parent()) ++row.depth;
    row.parameters = submodule.parameters().numel();
    row_of[&submodule] = result.rows.size();
    result.rows.push_back(std::move(row));
    handles.push_back(submodule.register_forward_pre_hook([&](Module& called, const CallVariables&) {
      open_calls[&called].push_back({cost.flops, plan->total().current});
    }));
    handles.push_back(submodule.register_forward_hook(
        [&](Module& called, const CallVariables&, const CallVariables& outputs) {
          SummaryRow& row_called = result.rows[row_of[&called]];
          const CallStart start = open_calls[&called].back();
          open_calls[&called].pop_back();
          row_called.flops += cost.flops - start.flops;
          row_called.activation_bytes += plan->total().current - start.bytes;
          row_called.outputs.clear();
          for (const Variable& output : outputs) row_called.outputs.push_back(output.shape());
        }));
  });
  {
    MetaAccountScope account(plan);
    CostScope counting(cost);
    GradMode record(true);
    call();
  }
  for (HookHandle& handle : handles) handle.remove();

  result.flops = result.rows[0].flops;
  result.activation_bytes = result.rows[0].activation_bytes;
  for (const NamedParameter& parameter : module.parameters()) {
    result.parameters += parameter.variable.numel();
    result.trainable += parameter.variable.requires_grad() ? parameter.variable.numel() : 0;
    result.parameter_bytes += parameter.variable.value().nbytes();
  }
  return result;
}

std::string to_string(const Summary& summary) {
  const std::vector<std::string> header = {"module", "kind", "output", "parameters", "FLOPs", "activations"};
  std::vector<std::vector<std::string>> table{header};
  for (const SummaryRow& row : summary.rows) {
    std::string outputs;
    for (const Shape& shape : row.outputs) outputs += (outputs.empty() ? "" : " ") + to_string(shape);
    table.push_back(
        {std::string(2 * row.depth, ' ') + row.name.substr(row.name.rfind('.') + 1),
         row.kind + (row.options.empty() ? "" : " (" + row.options + ")"), outputs,
         with_commas(row.parameters), row.flops ? with_prefix(static_cast<double>(row.flops), "FLOP") : "",
         row.activation_bytes ? with_prefix(static_cast<double>(row.activation_bytes), "B") : ""});
  }
  std::vector<size_t> widths(header.size());
  for (const auto& cells : table)
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  std::string out;
  for (const auto& cells : table) {
    std::string line;
    for (size_t i = 0; i < cells.size(); ++i) line += padded(cells[i], widths[i]);
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out + text("parameters: ", with_commas(summary.parameters), " (", with_commas(summary.trainable),
                    " trainable, ", with_prefix(static_cast<double>(summary.parameter_bytes), "B"),
                    "); forward: ", with_prefix(static_cast<double>(summary.flops), "FLOP"),
                    "; kept for backward: ", with_prefix(static_cast<double>(summary.activation_bytes), "B"),
                    "\n");
}

}  // namespace tessera::nn
