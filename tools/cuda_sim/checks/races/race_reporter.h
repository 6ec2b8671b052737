// From the rules' findings to text.
#pragma once

#include <cstdint>
#include <string>

#include "tools/cuda_sim/checks/findings.h"
#include "tools/cuda_sim/checks/races/cell_rules.h"

namespace tessera::cuda_sim {

/// Reports what one access of a warp does wrong; each check once.
class RaceReporter : public RuleReporter {
 public:
  RaceReporter(Warp& warp, const Instruction& instruction, const Access& access, const EpochTable& epochs,
               Findings& findings, bool is_shared)
      : warp_(warp),
        instruction_(instruction),
        access_(access),
        epochs_(epochs),
        findings_(findings),
        is_shared_(is_shared) {}

  void uninitialised(const AccessPart& part, const CellRun& run) override;
  void race(const AccessPart& part, uint64_t address, const SetEntry& earlier) override;
  void operation_race(const AccessPart& part, const CellRun& run, Operation earlier, bool wrote) override;
  void in_flight(const AccessPart& part, const CellRun& run) override;
  /// Lanes of one instruction write the same bytes.
  void same_bytes(const AccessPart& part);
  /// Whether anything was wrong, reported or not.
  bool has_faults() const { return has_faults_; }

 private:
  /// Whether the check is on, and this access has not been reported by it; with the site of the first of
  /// `lanes`.
  bool is_news(Check check, LaneMask lanes, Site& site);
  std::string where(uint64_t address) const;

  Warp& warp_;
  const Instruction& instruction_;
  const Access& access_;
  const EpochTable& epochs_;
  Findings& findings_;
  bool is_shared_;
  uint32_t reported_ = 0;
  bool has_faults_ = false;
};

}  // namespace tessera::cuda_sim
