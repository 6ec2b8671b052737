#include "tensor/threads/cores.h"

#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tensor/error.h"

namespace tessera {
namespace {

using std::filesystem::path;

/// "100000 50000" or "max 100000" in one group's cpu.max.
std::optional<double> limit_v2(const path& group) {
  std::ifstream file(group / "cpu.max");
  double quota = 0, period = 0;
  if (!(file >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;  // "max" is no number
  return quota / period;
}

/// One group's two files of version 1; a quota of -1 is none.
std::optional<double> limit_v1(const path& group) {
  std::ifstream quota_file(group / "cpu.cfs_quota_us"), period_file(group / "cpu.cfs_period_us");
  double quota = 0, period = 0;
  if (!(quota_file >> quota) || !(period_file >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

bool includes_cpu(const std::string& controllers) {
  return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

/// Lowers `limit` to the smallest one from `group` (absolute within its hierarchy) up to `root`. A container
/// often sees only its own group, as the root, under a path of the host: missing groups are passed over.
void lower_limit(std::optional<double>& limit, const path& root, const path& group,
                 std::optional<double> (*read)(const path&)) {
  for (path at = group.relative_path();; at = at.parent_path()) {
    if (const auto here = read(root / at)) limit = limit ? std::min(*limit, *here) : *here;
    if (at.empty()) return;
  }
}

/// The processors of all places of the OpenMP runtime that this process has loaded (oneDNN brings one); empty
/// where it has none, or binds no threads. OpenMP 5.2, sections 18.3.2 to 18.3.4.
std::vector<int> openmp_processors() {
  const auto count_places = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_num_places"));
  const auto count = reinterpret_cast<int (*)(int)>(dlsym(RTLD_DEFAULT, "omp_get_place_num_procs"));
  const auto get = reinterpret_cast<void (*)(int, int*)>(dlsym(RTLD_DEFAULT, "omp_get_place_proc_ids"));
  std::vector<int> processors;
  if (!count_places || !count || !get) return processors;
  for (int place = 0; place < count_places(); ++place) {
    std::vector<int> ids(static_cast<size_t>(std::max(0, count(place))));
    get(place, ids.data());
    processors.insert(processors.end(), ids.begin(), ids.end());
  }
  return processors;
}

/// By its settings: places imply it.
bool openmp_binds() {
  const char* const setting = std::getenv("OMP_PROC_BIND");
  if (setting == nullptr)
    return std::getenv("OMP_PLACES") != nullptr || std::getenv("GOMP_CPU_AFFINITY") != nullptr;
  return std::string_view(setting) != "false" && std::string_view(setting) != "FALSE";
}

}  // namespace

void undo_openmp_binding() {
  if (!openmp_binds()) return;
  // Before the mask is read: some runtimes bind the thread that asks them first.
  const std::vector<int> processors = openmp_processors();
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return;
  cpu_set_t all = mask;
  for (const int processor : processors)
    if (processor >= 0 && processor < CPU_SETSIZE) CPU_SET(processor, &all);
  if (!CPU_EQUAL(&all, &mask)) sched_setaffinity(0, sizeof all, &all);
}

std::optional<double> cgroup_cpu_limit(const std::string& membership, const std::string& mount) {
  std::optional<double> limit;
  std::ifstream file(membership);
  for (std::string line; std::getline(file, line);) {  // "hierarchy:controllers:path"
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const path group = path(line.substr(second + 1)).lexically_normal();
    if (controllers.empty()) {
      for (const char* root : {"", "unified"}) lower_limit(limit, path(mount) / root, group, limit_v2);
    } else if (includes_cpu(controllers)) {
      for (const std::string& root : {controllers, std::string("cpu")})
        lower_limit(limit, path(mount) / root, group, limit_v1);
    }
  }
  return limit;
}

int affinity_cores() {
  return std::max(1, static_cast<int>(allowed_processors().size()));
}

int available_cores() {
  static const int cores = [] {
    undo_openmp_binding();
    const std::optional<double> limit = cgroup_cpu_limit();
    const double most = affinity_cores();
    return static_cast<int>(std::max(1.0, std::min(most, limit ? std::ceil(*limit) : most)));
  }();
  return cores;
}

std::vector<int> allowed_processors() {
  cpu_set_t mask;
  std::vector<int> allowed;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return allowed;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor)
    if (CPU_ISSET(processor, &mask)) allowed.push_back(processor);
  return allowed;
}

bool pins_threads() {
  static const bool pins = [] {
    const char* const setting = std::getenv("TESSERA_PIN_THREADS");
    const std::string_view value = setting ? setting : "0";
    require<ConfigError>(value == "0" || value == "1", "TESSERA_PIN_THREADS: expected 0 or 1, got '", value,
                         "'");
    return value == "1";
  }();
  return pins;
}

int process_of_machine(const std::function<const char*(const char*)>& variable) {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "LOCAL_RANK"}) {
    const char* const value = variable(name);
    if (value == nullptr) continue;
    const std::string_view digits = value;
    int number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc() && end == digits.data() + digits.size() && number >= 0 && number < CPU_SETSIZE)
      return number;
  }
  return 0;
}

std::vector<int> processors_of_team(std::span<const int> allowed, int first, int threads) {
  if (std::ssize(allowed) < threads) return {};
  std::vector<int> processors;
  for (int i = 0; i < threads; ++i)
    processors.push_back(allowed[static_cast<size_t>(first + i) % allowed.size()]);
  return processors;
}

int TeamPlaces::take(int threads) {
  int first = 0;
  for (const auto& [begin, count] : taken_) {
    if (begin - first >= threads) break;
    first = begin + count;
  }
  taken_[first] = threads;
  return first;
}

void TeamPlaces::leave(int first) {
  taken_.erase(first);
}

int parse_thread_count(std::string_view value) {
  int threads = 0;
  const char* const last = value.data() + value.size();
  const auto [end, error] = std::from_chars(value.data(), last, threads);
  require<ConfigError>(error == std::errc() && end == last && threads >= 1 && threads <= 4096,
                       "TESSERA_NUM_THREADS: expected a number of threads from 1 to 4096, got '", value, "'");
  return threads;
}

}  // namespace tessera
