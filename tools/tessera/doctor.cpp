#include "tools/tessera/doctor.h"

#include <sys/statvfs.h>
#include <tessera/build.h>
#include <tessera/version.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>

#include "data/text/tiny_shakespeare.h"
#include "tensor/cpu/gemm/onednn/gemm_onednn.h"
#include "tensor/cpu/gemm/product_choice.h"
#include "tensor/cpu/isa.h"
#include "tensor/device.h"
#include "tensor/error.h"
#include "tensor/threads/cores.h"
#include "tensor/threads/parallel.h"
#include "tools/tessera/text_table.h"

namespace tessera::tools {
namespace {

/// The value on the first line "KEY : VALUE" of a file under /proc; "" when there is none.
std::string value_in(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const size_t colon = line.find(':');
    const size_t start = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    if (start != std::string::npos) return line.substr(start);
  }
  return "";
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The value of a line such as "MemTotal: 123 kB" of /proc/meminfo, in bytes; 0 when there is none.
int64_t memory_in(const char* key) {
  std::istringstream value(value_in("/proc/meminfo", key));
  int64_t kibibytes = 0;
  value >> kibibytes;
  return kibibytes * 1024;
}

std::string or_unknown(const std::string& value) {
  return value.empty() ? "unknown" : value;
}

FindingGroup examine_build() {
  FindingGroup group{"build", {}};
  auto add = [&](auto... fields) { group.findings.push_back({fields...}); };
  add("Tessera", text(TESSERA_VERSION, ", ", build::type, ", ", build::compiler, ", ", build::system),
      std::string(build::type) == "Release" ? "" : "slow: configure with `cmake --preset release` to train");
  add("kernels for", build::isas, "");
  add("Eigen", build::eigen_version, "");
  add("oneDNN", build::with_onednn ? build::onednn_version : "absent",
      build::with_onednn ? ""
                         : "matrix products run on Eigen, slower: install libdnnl-dev and configure again");
  add("MPI", build::with_mpi ? "built in" : "absent",
      build::with_mpi ? ""
                      : "ranks are threads of one process: for processes and several machines install "
                        "libopenmpi-dev and openmpi-bin and configure again");
  add("CUDA", cuda_is_built() ? "built in" : "absent",
      cuda_is_built()
          ? ""
          : "CPU only: where there is an NVIDIA GPU and nvcc, configure with `cmake --preset cuda`");
  return group;
}

/// The instruction set of the processor, the limit by TESSERA_ISA_MAX, and the resulting kernels.
void add_instruction_sets(FindingGroup& group) {
  using namespace kernels::cpu;
  auto add = [&](auto... fields) { group.findings.push_back({fields...}); };
  add("instruction set of the processor", std::string(name(processor_isa())),
      processor_isa() == Isa::baseline ? "elementwise kernels run without wide vectors" : "");
  try {
    const bool limited = isa_limit() < processor_isa();
    add("limit", isa_limit() == Isa::amx ? "none" : text(name(isa_limit()), ", by TESSERA_ISA_MAX"),
        limited ? "slower than the processor: TESSERA_ISA_MAX is for tests" : "");
    add("instruction set in use", std::string(name(current_isa())), "");
    add("f32 matrix products", f32_choices(false), "");
    add("f32 weight gradients", f32_choices(true), "");
    const bool through_f32 = bf16_product() == Bf16Product::through_f32;
    add("bf16 matrix products", bf16_choice(),
        through_f32 ? "--dtype bf16 works, and is slower than fp32" : "");
  } catch (const ConfigError& error) {
    add("limit", "not known", error.what());
  }
}

void add_threads(FindingGroup& group) {
  auto add = [&](auto... fields) { group.findings.push_back({fields...}); };
  add("cores of this process", std::to_string(affinity_cores()), "");
  const std::optional<double> limit = cgroup_cpu_limit();
  add("processor time allowed", limit ? text("that of ", *limit, " cores") : "no limit",
      limit && *limit < affinity_cores()
          ? "a container's quota: more threads than that only wait for each other"
          : "");
  try {
    const bool asked = std::getenv("TESSERA_NUM_THREADS") != nullptr;
    add("threads", text(num_threads(), asked ? ", by TESSERA_NUM_THREADS" : ""),
        num_threads() > available_cores()
            ? "more than there are cores: they sleep and wake instead of waiting"
            : "");
  } catch (const ConfigError& error) {
    add("threads", "not known", error.what());
  }
}

FindingGroup examine_processor() {
  FindingGroup group{"processor", {}};
  auto add = [&](auto... fields) { group.findings.push_back({fields...}); };
  add("model", or_unknown(value_in("/proc/cpuinfo", "model name")), "");
  add_threads(group);
  add_instruction_sets(group);
  const std::string flags = " " + value_in("/proc/cpuinfo", "flags") + " ";
  std::string bf16_units;
  for (const char* flag : {"avx512_bf16", "amx_bf16"})
    if (flags.find(std::string(" ") + flag + " ") != std::string::npos) bf16_units += std::string(flag) + " ";
  add("bf16 units", bf16_units.empty() ? "none" : bf16_units.substr(0, bf16_units.size() - 1), "");
  return group;
}

FindingGroup examine_memory() {
  FindingGroup group{"memory", {}};
  auto add = [&](auto... fields) { group.findings.push_back({fields...}); };
  add("total", byte_text(memory_in("MemTotal:")), "");
  add("available", byte_text(memory_in("MemAvailable:")), "");
  const std::string limit = first_line("/sys/fs/cgroup/memory.max");
  const bool limited = !limit.empty() && limit.find_first_not_of("0123456789") == std::string::npos;
  add("limit of this container", limited ? byte_text(std::stoll(limit)) : "none", "");
  add("transparent huge pages", or_unknown(first_line("/sys/kernel/mm/transparent_hugepage/enabled")), "");
  struct statvfs shared {};
  const bool there = ::statvfs("/dev/shm", &shared) == 0;
  const int64_t bytes =
      there ? static_cast<int64_t>(shared.f_blocks) * static_cast<int64_t>(shared.f_frsize) : 0;
  add("/dev/shm", there ? byte_text(bytes) : "absent",
      bytes >= int64_t{1} << 28 ? "" : "small for ranks that share memory: give a container --shm-size=2g");
  return group;
}

FindingGroup examine_data() {
  FindingGroup group{"data", {}};
  const std::string cache = data::cache_folder();
  group.findings.push_back({"cache", or_unknown(cache), ""});
  data::TinyShakespeareOptions options;
  options.fetch = false;
  try {
    group.findings.push_back({"tiny Shakespeare", data::find_tiny_shakespeare(options).source, ""});
  } catch (const DataError& error) {
    group.findings.push_back(
        {"tiny Shakespeare", "not here yet",
         text("training downloads it, or runs without it by --dataset builtin (", error.what(), ")")});
  }
  return group;
}

}  // namespace

std::vector<FindingGroup> examine() {
  return {examine_build(), examine_processor(), examine_memory(), examine_data()};
}

std::string report(const std::vector<FindingGroup>& groups) {
  std::string lines, advice;
  for (const FindingGroup& group : groups) {
    std::vector<std::vector<std::string>> rows;
    for (const Finding& finding : group.findings) {
      rows.push_back({finding.what + ":", finding.found});
      if (!finding.advice.empty()) advice += "  " + finding.what + ": " + finding.advice + "\n";
    }
    lines += group.title + "\n" + text_table(rows);
  }
  return lines + (advice.empty() ? "nothing is missing\n" : "advice\n" + advice);
}

}  // namespace tessera::tools
