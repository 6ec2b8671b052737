#include "nn/summary.h"

#include <algorithm>
#include <unordered_map>

#include "autograd/grad_mode.h"
#include "tensor/number_text.h"
#include "tensor/profile/cost.h"

namespace tessera::nn {
namespace {

std::string padded(std::string cell, size_t width) {
  if (cell.size() < width) cell.append(width - cell.size(), ' ');
  return cell + "  ";
}

/// Counts what each module adds during one call on meta, by hooks on all of them.
class ModuleCounters {
 public:
  explicit ModuleCounters(Module& root) : root_(root) {
    root.for_each([this](Module& module) { add_row(module); });
  }
  ~ModuleCounters() {
    for (HookHandle& handle : handles_) handle.remove();
  }
  ModuleCounters(const ModuleCounters&) = delete;
  ModuleCounters& operator=(const ModuleCounters&) = delete;

  std::vector<SummaryRow> count(const std::function<void()>& call) {
    MetaAccountScope account(memory_);
    CostScope counting(cost_);
    GradMode record(true);
    call();
    return std::move(rows_);
  }

 private:
  /// The counters at the start of a call.
  struct CallStart {
    int64_t flops;
    int64_t bytes;
  };

  void add_row(Module& module) {
    SummaryRow row{.name = &module == &root_ ? "(model)" : module.full_name(),
                   .kind = module.kind(),
                   .options = module.describe_options()};
    for (Module* above = &module; above != &root_; above = above->parent()) ++row.depth;
    row.parameters = module.parameters().numel();
    row_of_[&module] = rows_.size();
    rows_.push_back(std::move(row));
    handles_.push_back(module.register_forward_pre_hook([this](Module& called, const CallVariables&) {
      open_calls_[&called].push_back({cost_.flops, memory_->total().current});
    }));
    handles_.push_back(
        module.register_forward_hook([this](Module& called, const CallVariables&,
                                            const CallVariables& outputs) { end(called, outputs); }));
  }

  void end(Module& called, const CallVariables& outputs) {
    SummaryRow& row = rows_[row_of_[&called]];
    const CallStart start = open_calls_[&called].back();
    open_calls_[&called].pop_back();
    row.flops += cost_.flops - start.flops;
    row.activation_bytes += memory_->total().current - start.bytes;
    row.outputs.clear();
    for (const Variable& output : outputs) row.outputs.push_back(output.shape());
  }

  Module& root_;
  std::vector<SummaryRow> rows_;
  std::unordered_map<Module*, size_t> row_of_;
  std::unordered_map<Module*, std::vector<CallStart>> open_calls_;
  Cost cost_;
  intrusive_ptr<MemoryAccount> memory_ = make_intrusive<MemoryAccount>();
  std::vector<HookHandle> handles_;
};

}  // namespace

Summary summarize(Module& module, const std::function<void()>& call) {
  Summary result{.rows = ModuleCounters(module).count(call)};
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
