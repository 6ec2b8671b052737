#include "tools/cuda_sim/machine/device.h"

#include <cstdio>
#include <utility>

#include "tools/cuda_sim/checks/counters.h"
#include "tools/cuda_sim/checks/shadow.h"

namespace tessera::cuda_sim {

Device::Device(int index, const Settings& settings, Findings& findings, const OperationOrder& order)
    : index_(index),
      settings_(settings),
      memory_(settings.memory_bytes),
      shadow_(std::make_unique<GlobalShadow>(memory_.begin(), memory_.reserved_bytes(), findings, order)),
      findings_(&findings),
      order_(&order),
      counters_(std::make_unique<CounterTable>()) {}

Device::~Device() = default;

void Device::print(std::string_view text) {
  const std::lock_guard lock(printer_mutex_);
  if (printer_)
    printer_(text);
  else
    std::fwrite(text.data(), 1, text.size(), stdout);
}

void Device::set_printer(std::function<void(std::string_view)> printer) {
  const std::lock_guard lock(printer_mutex_);
  printer_ = std::move(printer);
}

}  // namespace tessera::cuda_sim
