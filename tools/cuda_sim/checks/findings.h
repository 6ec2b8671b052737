// What the checks report.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::cuda_sim {

/// Kinds of findings; each can be switched off by name (TESSERA_CUDA_SIM_CHECKS=all,-shared-race).
enum class Check : uint8_t {
  bounds,          ///< outside every allocation, or past its end; a host pointer
  alignment,       ///< an address that is no multiple of the access's bytes
  initialisation,  ///< a read of bytes never written
  shared_race,     ///< two threads of a block, one writes, nothing orders them
  global_race,     ///< two threads of a launch, one writes, nothing orders them
  stream_race,     ///< two operations, one writes, no stream, event or wait orders them
  copy_in_flight,  ///< shared memory used while cp.async writes it
  divergence,      ///< a barrier or a warp instruction that some of its lanes never reach
  use_after_free,  ///< memory given back
  leak,            ///< memory, streams, events, graphs at exit
  capture,         ///< a call that a capturing stream cannot record
  deadlock,        ///< nothing can go on
  count,
};
std::string_view check_name(Check check);

/// Where in a kernel a finding is.
struct Site {
  std::string kernel;  ///< demangled
  std::string file;    ///< "" where there is no line
  uint32_t line = 0;
  std::string instruction;  ///< PTX text
  uint64_t block = 0;
  uint32_t thread = 0;  ///< in the block, x first
};

struct Finding {
  Check check = Check::bounds;
  std::string message;  ///< "write of 4 bytes, 8 bytes past the end of 4000 bytes allocated at ..."
  Site site;            ///< of the first one
  uint64_t count = 1;   ///< findings of the same check at the same instruction
};

/// The findings of a process. Thread-safe.
class Findings {
 public:
  /// Counts a finding; the first one of a check and an instruction is kept with its text and, where `prints`,
  /// written to stderr: this library stands in place of compute-sanitizer.
  void add(Check check, std::string message, const Site& site);
  /// Counts one more of a finding that is known already; false where it is not, and `add` has to be called.
  /// Spares the text of a finding that comes a million times.
  bool add_again(Check check, const Site& site);
  bool is_on(Check check) const {
    return (on_.load(std::memory_order_relaxed) >> static_cast<int>(check) & 1) != 0;
  }
  void switch_on(Check check, bool on);
  /// "all", "none", "all,-shared-race", "bounds,leak". Throws std::invalid_argument that lists the names.
  void switch_by_text(std::string_view text);
  std::vector<Finding> all() const;
  uint64_t count() const;
  void clear();
  bool prints = true;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Finding> findings_;
  uint64_t count_ = 0;
  std::atomic<uint32_t> on_ = ~0u;
};

}  // namespace tessera::cuda_sim
