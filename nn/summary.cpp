#include "nn/summary.h"

#include <algorithm>
#include <unordered_map>

#include "autograd/grad_mode.h"
#include "tensor/profile/cost.h"

namespace tessera::nn {
namespace {

/// What a call had cost when it began.
struct Open {
  int64_t flops;
  int64_t bytes;
};

std::string grouped(int64_t number) {
  std::string digits = std::to_string(number);
  for (int64_t i = static_cast<int64_t>(digits.size()) - 3; i > 0; i -= 3) digits.insert(i, ",");
  return digits;
}

std::string scaled(double number, const char* unit) {
  constexpr const char* prefixes[] = {"", "k", "M", "G", "T", "P"};
  int p = 0;
  while (number >= 1000 && p < 5) {
    number /= 1000;
    ++p;
  }
  return text(number, " ", prefixes[p], unit);
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
  std::unordered_map<Module*, std::vector<Open>> open;
  std::vector<HookHandle> handles;

  module.for_each([&](Module& part) {
    SummaryRow row{.name = &part == &module ? "(model)" : part.full_name(),
                   .kind = part.kind(),
                   .options = part.describe_options()};
    for (Module* above = &part; above != &module; above = above->parent()) ++row.depth;
    row.parameters = part.parameters().numel();
    row_of[&part] = result.rows.size();
    result.rows.push_back(std::move(row));
    handles.push_back(part.register_forward_pre_hook([&](Module& called, std::span<Variable* const>) {
      open[&called].push_back({cost.flops, plan->total().current});
    }));
    handles.push_back(part.register_forward_hook([&](Module& called, std::span<Variable* const> outputs) {
      SummaryRow& row_called = result.rows[row_of[&called]];
      const Open begun = open[&called].back();
      open[&called].pop_back();
      row_called.flops += cost.flops - begun.flops;
      row_called.activation_bytes += plan->total().current - begun.bytes;
      row_called.outputs.clear();
      for (const Variable* output : outputs) row_called.outputs.push_back(output->shape());
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
    table.push_back({std::string(2 * row.depth, ' ') + row.name.substr(row.name.rfind('.') + 1),
                     row.kind + (row.options.empty() ? "" : " (" + row.options + ")"), outputs,
                     grouped(row.parameters), row.flops ? scaled(static_cast<double>(row.flops), "FLOP") : "",
                     row.activation_bytes ? scaled(static_cast<double>(row.activation_bytes), "B") : ""});
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
  return out + text("parameters: ", grouped(summary.parameters), " (", grouped(summary.trainable),
                    " trainable, ", scaled(static_cast<double>(summary.parameter_bytes), "B"),
                    "); forward: ", scaled(static_cast<double>(summary.flops), "FLOP"),
                    "; kept for backward: ", scaled(static_cast<double>(summary.activation_bytes), "B"),
                    "\n");
}

}  // namespace tessera::nn
