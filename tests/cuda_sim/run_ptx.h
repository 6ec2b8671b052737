// Runs PTX text over arrays: what tests of the simulated card need.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tools/cuda_sim/checks/counters.h"
#include "tools/cuda_sim/checks/findings.h"
#include "tools/cuda_sim/checks/shadow.h"
#include "tools/cuda_sim/machine/device.h"
#include "tools/cuda_sim/machine/grid.h"
#include "tools/cuda_sim/machine/loader.h"
#include "tools/cuda_sim/ptx/tree.h"

namespace tessera::cuda_sim::testing {

/// Every operation comes after all earlier ones.
class InOrder final : public OperationOrder {
 public:
  bool is_ordered(Operation, Operation) const override { return true; }
  std::string describe(Operation operation) const override {
    return "operation " + std::to_string(operation);
  }
};

/// The parameters of a launch, laid out as a kernel expects them: each at a multiple of its size.
class Arguments {
 public:
  template <class... T>
  explicit Arguments(const T&... values) {
    (add(values), ...);
  }
  template <class T>
  void add(const T& value) {
    bytes_.resize((bytes_.size() + alignof(T) - 1) / alignof(T) * alignof(T) + sizeof(T));
    std::memcpy(bytes_.data() + bytes_.size() - sizeof(T), &value, sizeof(T));
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// A card with arrays and one module.
///
///   Card card;
///   const uint64_t x = card.array(std::vector<float>{1, 2, 3});
///   card.load(module_text);
///   card.launch("kernel", {.grid = {1}, .block = {32}}, x, 3u);
///   CHECK(card.read<float>(x, 3) == ...);
///   CHECK(card.findings.count() == 0);
class Card {
 public:
  explicit Card(Settings settings = default_settings()) : device(0, settings, findings, order) {
    findings.prints = false;
    device.set_printer([this](std::string_view text) { printed += text; });
  }

  static Settings default_settings() {
    Settings settings;
    settings.memory_bytes = uint64_t{64} << 20;
    settings.host_threads = 1;
    return settings;
  }

  /// A device array with these values.
  template <class T>
  uint64_t array(const std::vector<T>& values) {
    const uint64_t address = undefined<T>(values.size());
    std::memcpy(reinterpret_cast<void*>(address), values.data(), values.size() * sizeof(T));
    device.shadow().access_range(next_operation_++, address, values.size() * sizeof(T), true, "array");
    return address;
  }
  /// A device array that nothing has written.
  template <class T>
  uint64_t undefined(size_t count) {
    return device.memory().allocate(count * sizeof(T), "array");
  }
  template <class T>
  std::vector<T> read(uint64_t address, size_t count) const {
    std::vector<T> values(count);
    std::memcpy(values.data(), reinterpret_cast<const void*>(address), count * sizeof(T));
    return values;
  }

  void load(const std::string& ptx) { module = std::make_unique<LoadedModule>(device, ptx::parse(ptx)); }

  template <class... T>
  void launch(const std::string& kernel, const LaunchShape& shape, const T&... arguments) {
    const Arguments all(arguments...);
    run_grid(device, module->program(kernel), shape, all.bytes(), next_operation_++);
  }

  /// The messages of all findings of a check.
  std::vector<std::string> messages(Check check) const {
    std::vector<std::string> found;
    for (const Finding& finding : findings.all())
      if (finding.check == check) found.push_back(finding.message);
    return found;
  }

  Findings findings;
  InOrder order;
  Device device;
  std::unique_ptr<LoadedModule> module;
  std::string printed;  ///< by kernels

 private:
  Operation next_operation_ = 1;
};

/// A module with one kernel `k`: `parameters` as PTX declares them, `body` without braces.
inline std::string kernel_text(const std::string& parameters, const std::string& body) {
  return ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(" + parameters + ") {\n" + body +
         "\n}\n";
}

/// A kernel `k` with two pointer parameters in %rd1 (`in`) and %rd2 (`out`), %r0 the number of the thread in
/// the grid, %rd3 4 times that. Registers %r0-99, %rd0-99, %f0-99, %fd0-99, %h0-99 (16 bits), %p0-99.
inline std::string in_out_kernel(const std::string& body) {
  return kernel_text(".param .u64 in, .param .u64 out", R"(
    .reg .b32 %r<100>; .reg .b64 %rd<100>; .reg .f32 %f<100>; .reg .f64 %fd<100>; .reg .b16 %h<100>;
    .reg .pred %p<100>;
    ld.param.u64 %rd1, [in];
    ld.param.u64 %rd2, [out];
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r99, %ntid.x;
    mov.u32 %r98, %tid.x;
    mad.lo.s32 %r0, %r0, %r99, %r98;
    mul.wide.u32 %rd3, %r0, 4;
)" + body + "\n    ret;");
}

/// Runs in_out_kernel(body) with `threads` threads of one block and gives what it wrote: `count` values.
template <class Out, class In>
std::vector<Out> run_in_out(Card& card, const std::string& body, const std::vector<In>& in, size_t count,
                            uint32_t threads = 32) {
  card.load(in_out_kernel(body));
  const uint64_t from = card.array(in), to = card.undefined<Out>(count);
  card.launch("k", {.grid = {}, .block = {threads}}, from, to);
  return card.read<Out>(to, count);
}

}  // namespace tessera::cuda_sim::testing
